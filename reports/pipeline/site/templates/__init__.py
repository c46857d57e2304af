"""The pages of the report site, as Jinja templates, with their style and script."""
