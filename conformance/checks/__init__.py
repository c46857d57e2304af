"""The checks, one module an area or a layer of evidence."""
