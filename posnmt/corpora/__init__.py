"""Public corpora and how they come, and the built-in artificial language pair."""
