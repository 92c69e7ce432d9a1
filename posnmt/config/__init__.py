"""The configuration: its schema, YAML files, and the named systems."""
