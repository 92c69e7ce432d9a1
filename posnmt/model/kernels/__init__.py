"""Attention kernels. Triton is imported only when a tensor on a GPU needs it."""
