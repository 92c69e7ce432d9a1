"""Measures of translations of any system against references, overall and by source length."""
