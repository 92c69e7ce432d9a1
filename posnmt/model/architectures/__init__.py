"""Translation models other than the Transformer."""
