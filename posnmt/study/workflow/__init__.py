"""A workflow engine: steps are named by hashes, run locally or on a cluster, and resume after any interruption.

It is independent of translation.
"""
