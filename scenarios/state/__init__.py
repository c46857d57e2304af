"""The state of a world at one event of a run, folded from the events before it, and shown."""
