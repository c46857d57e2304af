"""streamproof: does this state store keep its promises through every crash?"""

from __future__ import annotations

from streamproof.version import __version__

__all__ = ["__version__"]
