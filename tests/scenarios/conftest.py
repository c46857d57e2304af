"""Lets the tests of the scenarios share their small runs."""

from __future__ import annotations

import sys
from pathlib import Path

# With importmode=importlib nothing puts this folder into sys.path, and so no test module could
# import the one beside it.
sys.path.append(str(Path(__file__).parent))
