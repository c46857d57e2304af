"""Events that were kept, judged again: by the invariants of the simulator, and as sets."""
