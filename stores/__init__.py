"""The store contract, real implementations of it, and adapters to other people's stores."""
