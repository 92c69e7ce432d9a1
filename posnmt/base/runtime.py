"""Environment variables that PyTorch and OpenMP read when they are loaded, to be set before that."""

ENVIRONMENT = {
    # Idle threads sleep: on a busy machine, spinning threads would take cores from working ones.
    "OMP_WAIT_POLICY": "passive",
    # Large tensors use huge pages if Linux offers them, for fewer page faults and address look-ups.
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Defaults for a CPU; variables that the user has set are kept."""
