"""Runs as library functions: what each command does, without a terminal.

A command reads its options, calls a function of this package, and prints what came of it. The
public functions :func:`streamproof.verify`, :func:`streamproof.replay`, :func:`streamproof.explore`
and :func:`streamproof.simulate` are here as well.
"""
