"""`posnmt data clean`: pairs that a training text is better without, dropped with their reasons."""
