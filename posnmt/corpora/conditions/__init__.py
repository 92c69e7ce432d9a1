"""Training and test conditions derived from text: selected by length, joined, swapped, reordered."""
