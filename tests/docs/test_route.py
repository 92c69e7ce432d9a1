"""The route through the code names what there is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_each_stop_is_a_name_in_its_file():
    route = PAGE.split("## An afternoon's route")[1].split("\n## ")[0]
    stops = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", route)
    assert len(stops) == 13
    for path, name in stops:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:def|class) {name}\b", text, re.MULTILINE), (path, name)
