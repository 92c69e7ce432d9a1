"""Work that nobody waits for ends at its next step, in every kind of search."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.cancel import Cancelled, cancelled_if, check_cancelled
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode
from posnmt.translate.requests import Part, Search
from posnmt.translate.subwords import Searcher
from tests.support.tiny import MODELS, build

KINDS = {
    "greedy": ({"beam": 1}, {}),
    "beam": ({"beam": 3}, {}),
    "samples": ({"sampling": {}}, {}),
    "terms": ({"beam": 3}, {"terms": [[7]]}),
}


class After:
    """Is true from the question `count` on."""

    def __init__(self, count):
        self.left = count

    def __call__(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_each_search_ends_at_the_next_step(kind, threads):
    decode, of_part = KINDS[kind]
    model = build(**next(iter(MODELS.values()))).eval()
    parts = [Part([5, 6, 7, 8], **of_part), Part([9, 5], **of_part)]
    workers = Workers(threads)
    workers.count = threads
    search = Search(Decode(**decode, max_extra=20))
    searcher = Searcher([model], torch.device("cpu"), workers, lambda: [6])
    with torch.inference_mode():
        whole = searcher.hypotheses(parts, search)
        for steps in (0, 1, 4):
            asked = After(steps)
            with pytest.raises(Cancelled), cancelled_if(asked):
                searcher.hypotheses(parts, search)
            assert asked.left >= -threads  # no thread went on
        with cancelled_if(After(10_000)):
            assert searcher.hypotheses(parts, search) == whole


def test_outside_of_a_block_nothing_is_cancelled():
    with pytest.raises(Cancelled), cancelled_if(lambda: True):
        check_cancelled()
    check_cancelled()


def test_threads_have_the_block_of_their_caller():
    workers = Workers(2)
    with cancelled_if(lambda: True), pytest.raises(Cancelled):
        workers.map(lambda number: check_cancelled(), range(4))
    workers.map(lambda number: check_cancelled(), range(4))
