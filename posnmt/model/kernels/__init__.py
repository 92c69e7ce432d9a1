"""Kernels of our own for a GPU. Nothing here imports Triton before a tensor asks for it."""
