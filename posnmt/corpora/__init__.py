"""Public corpora and their download, the built-in artificial language pair, cleaning, and conditions of tests."""
