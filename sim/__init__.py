"""The simulated world around a store: time, decisions, and the life of tasks."""
