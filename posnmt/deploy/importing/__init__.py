"""Checkpoints of other toolkits as runs."""
