"""Simulates losses of power: unsynced data is lost in every way in which a disk may lose it."""
