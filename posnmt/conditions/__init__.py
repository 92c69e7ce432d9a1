"""Training and test conditions made from text: by length, capped, joined, swapped, reordered."""
