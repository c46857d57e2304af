"""The loss of power: what was not synced is lost, in every way in which a disk may lose it."""
