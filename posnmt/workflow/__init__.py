"""Steps named by hashes that run anywhere and go on after any stop. It knows nothing of translation."""
