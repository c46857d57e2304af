"""The report site, and the other formats of a report on many runs."""
