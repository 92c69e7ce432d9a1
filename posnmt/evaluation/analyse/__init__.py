"""Measures of anybody's translations against references: scores overall and by source length."""
