"""The Spark pipeline: campaigns, re-checking of kept events, compliance tables, the report site."""
