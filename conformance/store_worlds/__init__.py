"""The fifth layer: the store under test inside simulated tasks, which are killed and moved.

A world of the simulator (docs/simulator.md) has the subject on the disks of its instances. If an
invariant of the simulator breaks, the store is to blame, because the same world is correct with a
model store.
"""
