"""Metrics: counts of each sentence that add up over sentences, and scores of their sums."""
