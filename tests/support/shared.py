"""Real corpora, in a folder beside the repository; where they are absent, as on CI, their tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def needs(part: str) -> pytest.MarkDecorator:
    """Skip a test where a file or a folder of them is absent."""
    return pytest.mark.skipif(not (SHARED / part).exists(), reason=missing(part))


def missing(part: str) -> str:
    """Why a test is skipped."""
    return f"../shared/data/{part} is absent: real corpora are not in the repository"
