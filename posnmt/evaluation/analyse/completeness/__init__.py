"""Completeness of translations: which sentences of the source have no counterpart in the output."""
