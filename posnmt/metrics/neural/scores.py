"""Sentence scores of a neural metric: computed once for the same texts, model and versions, and cached by content."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.base.progress import Work
from posnmt.metrics.neural.environment import folder
from posnmt.metrics.neural.install import Installed
from posnmt.metrics.neural.run import Event, advice, run

Sentence = tuple[str, str, str]
"""Source, output and reference; the reference of a metric that reads none is empty."""
Score = tuple[float, bool]
"""The score, and whether the model read only a part of the text because it is too long."""
MOST = 10_000
"""The largest absolute value of a score, as of scores from files."""


def scores(installed: Installed, sentences: Sequence[Sentence], batch: int, say: Callable[[str], None]) -> list[Score]:
    """The score of each sentence, from the cache or from the metric's program.

    What is scored is cached at once, so that an interrupted scoring goes on where it was.

    Args:
        installed: the metric.
        sentences: source, output and reference of each.
        batch: number of sentences that are scored together.
        say: called with how many are scored.

    Raises:
        UserError: the program fails; it gives another number of scores, or a score that is no number.
    """
    identity = installed.identity
    keys = [hashlib.sha256(json.dumps([identity, *each]).encode()).digest() for each in sentences]
    texts = dict(zip(keys, sentences, strict=True))
    with _cache() as cache:
        known = dict(_known(cache, texts))
        new = [key for key in texts if key not in known]
        if new:
            count = f"{len(new):,} of {len(texts):,}"
            say(f"{installed.name}: scoring {count} different sentences; the others are cached" if known else
                f"{installed.name}: scoring {count} different sentences")  # fmt: skip
        for scored in _computed(installed, {key: texts[key] for key in new}, batch) if new else ():
            known |= scored
            rows = [(key, *score) for key, score in scored.items()]
            cache.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?)", rows)
            cache.commit()
    return [known[key] for key in keys]


def _computed(installed: Installed, texts: dict[bytes, Sentence], batch: int) -> Iterator[dict[bytes, Score]]:
    """The keys and the scores of sentences, as the program computes them."""
    keys = list(texts)
    with (
        tempfile.TemporaryDirectory(prefix="posnmt-") as place,
        Work(f"scoring with {installed.name}", "sentences", len(texts)) as work,
    ):
        path = Path(place, "sentences.jsonl")
        with path.open("w", encoding="utf-8") as file:
            for source, output, reference in texts.values():
                row = {"source": source, "hypothesis": output}
                row |= {"reference": reference} if installed.metric.reads_reference else {}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        request = {
            "sentences": str(path), "paths": installed.record["paths"], "batch": batch,
            "reference": installed.metric.reads_reference,
        }  # fmt: skip
        for event in run(installed.name, installed.metric, "score", request):
            _check_versions(installed, event)
            scored = {keys[number]: (value, cut) for number, value, cut in event.get("scores", ())}
            for key, (value, _) in scored.items():
                _check(installed, value, texts[key])
            yield scored
            work.add(len(scored))
    if work.done != len(keys):
        what = f"{installed.name} gave {work.done:,} scores for {len(keys):,} sentences"
        raise UserError(what, installed.metric.program, "correct the program")


def _check_versions(installed: Installed, event: Event) -> None:
    """Check that the environment has the packages with which the metric was installed."""
    recorded = installed.record["versions"]
    if (found := event.get("versions", recorded)) != recorded:
        raise UserError(f"the packages of {installed.name} have changed: {found}", None, advice(installed.name))


def _check(installed: Installed, value: float, text: Sentence) -> None:
    """Check that a score is a number that can be averaged."""
    if math.isfinite(value) and abs(value) <= MOST:
        return
    what = f"{installed.name} gave {value} to the output {text[1][:80]!r}, in place of a number up to {MOST:,}"
    raise UserError(what, None, f"look at the model {installed.record['model']}: it may be damaged")


@contextmanager
def _cache() -> Iterator[sqlite3.Connection]:
    """The cache of scores.

    Raises:
        UserError: its file is damaged.
    """
    path = folder() / "scores.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL, cut INTEGER)")
            yield connection
    except sqlite3.DatabaseError as error:
        raise UserError(f"the cache of scores cannot be used: {error}", path, "remove it: it is made again") from None


def _known(cache: sqlite3.Connection, keys: Iterable[bytes]) -> Iterator[tuple[bytes, Score]]:
    for key in keys:
        row = cache.execute("SELECT score, cut FROM scores WHERE key = ?", (key,)).fetchone()
        if row is not None:
            yield key, (row[0], bool(row[1]))
