"""Runs as library functions: what a command does, without a terminal.

A command reads its options, calls a function of this package, and prints what came of it. The
public functions :func:`streamproof.replay`, :func:`streamproof.explore` and
:func:`streamproof.simulate` are here as well. Campaigns verify stores too, so verifying is one
layer below, in ``reports/verification.py``.
"""
