"""Measure what the position parts of trained models do, and draw it on a page."""
