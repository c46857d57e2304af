"""Crash engines: real processes, killed for real, at points that are enumerated."""
