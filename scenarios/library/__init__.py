"""Scenarios that come with streamproof: the files, and the patches that some of them bring."""
