"""The run log, and the reports that are rendered from one run log."""
