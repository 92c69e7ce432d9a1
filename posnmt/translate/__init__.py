"""Translation: search, the translator that users call, and forced scoring."""
