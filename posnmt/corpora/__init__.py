"""Public corpora and their download, and the built-in artificial language pair."""
