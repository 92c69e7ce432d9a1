"""Translation: search, the translator, and forced scoring."""
