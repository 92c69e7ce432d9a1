"""Parallel work: threads for computation, processes for data preparation."""
