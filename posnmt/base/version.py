"""The version of posnmt."""

__version__ = "0.1.0"
