"""Verifying subjects, the run log of a verification, and the reports rendered from the log."""
