"""Training: loss, schedule, loop, checkpoints, and the record of a run.

`posnmt.train(config, out)` trains: the package can be called, and the call is that of `posnmt.api.train.train`.
"""

import sys

from posnmt.callable import CallablePackage

sys.modules[__name__].__class__ = CallablePackage
