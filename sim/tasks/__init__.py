"""Tasks: what a stream thread runs, with their records, their stores and their life."""
