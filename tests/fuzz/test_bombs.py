"""Each reader refuses a bomb with one short line, and takes little more memory than for a harmless file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.fuzz.bomb import MIB
from tests.fuzz.bombs import BOMBS

NO_FAULT = {"markdown document, nested", "request, small chunks", "sentencepiece, trainer spec", "xz, a dictionary"}
"""What is read: the depth of this document takes no memory, the sizes in a trainer spec are not used, of a dictionary
only what the text fills is, and chunks are joined as they arrive.
"""


def read(name, place):
    """The peak memory and the fault of a child process that reads a file."""
    command = [sys.executable, "-m", "tests.fuzz.bombs", name, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow  # two processes each
@pytest.mark.skipif(sys.platform != "linux", reason="the peak memory is read from /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_memory(name, tmp_path):
    places = [tmp_path / "harmless", tmp_path / "bomb"]
    for place in places:
        place.mkdir()
        BOMBS[name].make(place, place.name == "bomb")
    harmless, bomb = (read(name, place) for place in places)
    assert harmless["fault"] is None
    print(f"{name}: {(bomb['peak'] - harmless['peak']) / MIB:.0f} MiB, {bomb['fault']}")
    assert bomb["peak"] - harmless["peak"] < BOMBS[name].most * MIB
    if name not in NO_FAULT:
        assert len(bomb["fault"]) == 1
        assert len(bomb["fault"][0]) < 1000
