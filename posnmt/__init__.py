"""posnmt: translators in which what tells the model about word order is a part that you choose."""

__version__ = "0.1.0"
