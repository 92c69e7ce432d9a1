"""Training: loss, schedule, one readable loop, checkpoints, the record of a run."""
