"""Studies: many systems trained and evaluated under the same conditions, from a recipe to a report."""
