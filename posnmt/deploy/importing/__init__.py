"""Import checkpoints of other toolkits as runs."""
