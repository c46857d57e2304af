"""streamproof: does this state store keep its promises through every crash?"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
