"""Lets ``python -m streamproof`` do what ``streamproof`` does."""

from streamproof.cli import main

main()
