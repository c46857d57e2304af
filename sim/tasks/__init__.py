"""Tasks, which stream threads run: their records, their stores and their life."""
