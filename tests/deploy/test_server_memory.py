"""The memory of a server on a CPU: it stops growing, however many shapes the batches have."""

from __future__ import annotations

import random
import sys

import pytest

from tests.promises.load import memory, pair
from tests.support.serving import Serving, serving
from tests.support.untrained import LEARNED


def ask(server: Serving, drawn: random.Random, times: int) -> None:
    """Ask for so many translations, with batches of many shapes."""
    for _ in range(times):
        assert server.post("/translate", pair(drawn, alternatives=drawn.randint(0, 3)))[0] == 200


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory is read from /proc")
def test_kernels_for_shapes_of_batches_are_limited() -> None:
    drawn = random.Random(1)
    with serving(LEARNED) as server:
        ask(server, drawn, 30)
        before = memory(server)
        ask(server, drawn, 60)
        print(f"{before:.0f} MiB after 30 requests, {memory(server):.0f} MiB after 90")
        assert memory(server) - before < 40
