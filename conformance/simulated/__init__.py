"""The fifth layer: the store under test inside simulated tasks, which are killed and moved.

A world of the simulator (docs/simulator.md) has the subject on the disks of its instances. What
the invariants of the simulator find wrong in it is laid at the store's door, because the same
world is right with a model store in it.
"""
