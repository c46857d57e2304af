"""The page's template, style and script: data, not code."""
