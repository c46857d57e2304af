"""What the runtime decides, as pure functions over plain data, apart from the world.

Each rule can be read on one page, tested alone, and compared with another implementation.
"""
