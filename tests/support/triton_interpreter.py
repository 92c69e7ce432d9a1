"""Triton with its interpreter where there is no GPU.

Triton's own functions are made for it, or not, when Triton is first imported, and PyTorch imports it too: so
conftest.py has this module imported before any test is.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from unittest.mock import patch

import torch

ON_GPU = torch.cuda.is_available()
VARIABLES = {} if ON_GPU else {"TRITON_INTERPRET": "1"}
INSTALLED = importlib.util.find_spec("triton") is not None

if INSTALLED:
    with patch.dict(os.environ, VARIABLES):
        importlib.import_module("posnmt.model.kernels.shaw_triton")
        importlib.import_module("posnmt.training.loss_triton")
