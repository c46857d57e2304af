"""Judges kept events again: by the invariants of the simulator, and by checks over sets."""
