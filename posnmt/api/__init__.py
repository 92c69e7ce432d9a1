"""The public Python API: `posnmt` hands out what is here (docs/api.md).

Environment variables for PyTorch are set as by the command line, where PyTorch is not loaded yet.
"""

import os
import sys

from posnmt.base.parallel.cores import ENVIRONMENT

if "torch" not in sys.modules:
    os.environ.update({**ENVIRONMENT, **os.environ})
