"""The report site, and the other formats that many runs are handed on in."""
