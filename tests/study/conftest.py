"""Fixtures of the tests of studies."""

from pathlib import Path

import pytest

from posnmt.study.load import load, shipped


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with every file that a shipped recipe names, empty."""
    folder = tmp_path / "data"
    for name in shipped():
        recipe = load(name)
        for scale, setting in recipe.scales.items():
            for texts in setting.corpora.values():
                for text in texts if isinstance(texts, list) else [texts]:
                    for part in (text.source, text.target, text.documents):
                        if part is not None:
                            path = folder / part.format(**recipe.pair_at(scale).model_dump())
                            path.parent.mkdir(parents=True, exist_ok=True)
                            path.touch()
    return folder
