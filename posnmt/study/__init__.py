"""Studies: many systems trained and measured alike, from a recipe to a report."""
