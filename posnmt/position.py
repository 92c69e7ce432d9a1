"""Position schemes for models and schemes outside posnmt (docs/api.md): `posnmt_position`, with plug-ins."""

import posnmt_position
from posnmt.model import positions
from posnmt_position import *  # noqa: F403

create = positions.create  # it knows plug-ins as well
__all__ = posnmt_position.__all__
