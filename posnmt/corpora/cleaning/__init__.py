"""`posnmt data clean`: drop harmful pairs of a training text, and record the reasons."""
