"""Crash scenarios as data; this release holds no scenarios yet."""
