"""The configuration: its schema, how people write it, what earlier formats meant, the named systems."""
