"""The configuration: its schema, YAML files, earlier formats, and the named systems."""
