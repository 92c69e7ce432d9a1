"""posnmt: Transformer translators with any way of encoding word order."""

__version__ = "0.1.0"
