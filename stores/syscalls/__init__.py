"""System calls of stores: seen, made to fail, recorded, and made again on a model of a disk."""
