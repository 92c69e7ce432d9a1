"""Documents: their text is translated, and everything else stays as it is."""
