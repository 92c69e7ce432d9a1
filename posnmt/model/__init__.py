"""The Transformer of the four papers, with the position seam, and other architectures."""
