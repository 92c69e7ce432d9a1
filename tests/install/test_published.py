"""What a publisher's address changes in the distributions."""

import re
import tomllib
from pathlib import Path

from tests.install.distributions import LINK, published

ROOT = Path(__file__).parents[2]
URL = "https://example.org/owner/posnmt"


def test_no_link_of_the_readme_is_relative_and_each_leads_to_a_file(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    relative = len(LINK.findall((ROOT / "README.md").read_text()))
    published(tmp_path, URL)
    text = (tmp_path / "README.md").read_text()
    assert not LINK.search(text)
    made = re.findall(rf"{URL}/(raw|blob)/main/([^)#\s]+)", text)
    assert len(made) == relative > 10
    for kind, path in made:
        assert (ROOT / path).is_file()
        assert (kind == "raw") == (Path(path).suffix == ".svg")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Source"] == URL
    assert project["scripts"] == {"posnmt": "posnmt.cli.main:main"}
