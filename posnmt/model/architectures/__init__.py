"""Translation models that are no plain Transformers."""
