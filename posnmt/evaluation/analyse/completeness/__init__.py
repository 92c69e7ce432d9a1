"""Completeness of translations: which source sentences have no counterpart in the output."""
