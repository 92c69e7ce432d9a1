"""The public Python API, whose names are imported from `posnmt` (docs/api.md).

If PyTorch is not loaded yet, environment variables for it are set as on the command line.
"""

import os
import sys

from posnmt.base.parallel.cores import ENVIRONMENT

if "torch" not in sys.modules:
    os.environ.update({**ENVIRONMENT, **os.environ})
