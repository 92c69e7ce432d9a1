"""What PyTorch and OpenMP read from the environment when they are loaded: to be set before that."""

ENVIRONMENT = {
    # Idle threads sleep: on a machine that does other things too, those that spin take the cores of those that work.
    "OMP_WAIT_POLICY": "passive",
    # Large tensors lie in huge pages, where Linux gives them to who asks: fewer page faults and address look-ups.
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""What suits translators on a CPU; what the user has set stays."""
