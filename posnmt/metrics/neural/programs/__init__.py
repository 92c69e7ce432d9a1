"""What runs in the environments of neural metrics. It imports nothing of posnmt, and posnmt imports nothing of it."""
