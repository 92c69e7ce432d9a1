"""The Transformer of the four papers, with the position seam; it knows no scheme by name."""
