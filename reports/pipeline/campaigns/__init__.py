"""Campaigns: a plan of many thousands of runs, carried out by Spark and kept in Parquet."""
