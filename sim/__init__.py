"""The simulated world around a store: time, decisions, and what happens to a task."""
