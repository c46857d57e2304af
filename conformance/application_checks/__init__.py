"""The checks of applications of a user's own, which run real processes."""
