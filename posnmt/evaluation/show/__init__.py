"""What the position parts of trained models do: as values, and drawn on a page."""
