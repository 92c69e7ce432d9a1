"""Search by other programs, with posnmt's text, limits and scores."""
