"""Exports to other programs, imports of their checkpoints, engines of other programs, documents, and the server."""
