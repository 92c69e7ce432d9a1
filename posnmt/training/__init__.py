"""Training: loss, schedule, loop, checkpoints, and the record of a run."""
