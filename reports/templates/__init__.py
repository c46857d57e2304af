"""The HTML report's template, style and script: data, not code."""
