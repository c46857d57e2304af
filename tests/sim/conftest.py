"""What the tests of the simulator share."""

from __future__ import annotations

import sys
from pathlib import Path

# With importmode=importlib nothing puts this folder into sys.path, and so no test module could
# import what is shared.
sys.path.append(str(Path(__file__).parent))
