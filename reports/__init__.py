"""The run log, and the reports that are made from run logs."""
