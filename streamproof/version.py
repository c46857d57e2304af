"""The version of streamproof, in a module that imports nothing, so that every package can ask."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
