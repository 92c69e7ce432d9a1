"""Measures of anybody's translations against references: scores overall and by source length.

`posnmt.analyse(source, reference, outputs)` measures: the package can be called, and the call is that of
`posnmt.api.analyse.analyse`.
"""

import sys

from posnmt.callable import CallablePackage

sys.modules[__name__].__class__ = CallablePackage
