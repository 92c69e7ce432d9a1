"""Where this copy of posnmt is, for processes that tests start in another folder."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join(map(str, (ROOT, ROOT / "position")))
"""PYTHONPATH, with posnmt and posnmt_position."""
