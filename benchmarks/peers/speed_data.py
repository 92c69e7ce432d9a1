"""The corpus, prepared once, in the forms that the toolkits read: the same pairs in the same subwords for all."""

from __future__ import annotations

import json
from pathlib import Path

from opennmt_tanaka import write_lines

from posnmt.config import Config
from posnmt.data.batch import BatchPlan, Cursor
from posnmt.data.prepare import prepare
from posnmt.data.subword import SPECIALS, UNK

SOURCE, TARGET = "en", "ja"
UNKNOWN = "<unk>"
FEW = 50
"""Pairs of the validation set that some toolkits insist on; no figure contains a validation."""


def write_data(config: Config, batches: int, folder: Path) -> None:
    """Prepare the store of a configuration, and write its training pairs as text for other toolkits.

    `train` and `few` (`.en`, `.ja`) have subwords between blanks; `vocabulary`, `dictionary` (with counts) and
    `vocabulary.json` (with the special symbols, by number) the subwords; `batches.jsonl` the first batches of posnmt's
    own order as numbers, one a line, for a toolkit that brings no data loader.

    Args:
        config: a posnmt configuration; `data.store` is where the store goes.
        batches: how many batches `batches.jsonl` holds.
        folder: where the files go; it exists.
    """
    store = prepare(config)
    split, names = store.split("train"), store.text.source.subwords.pieces
    names[UNK] = UNKNOWN
    pairs = [split.pair(index) for index in range(len(split))]
    for side, language in enumerate((SOURCE, TARGET)):
        lines = [" ".join(names[number] for number in pair[side]) for pair in pairs]
        write_lines(folder / f"train.{language}", lines)
        write_lines(folder / f"few.{language}", lines[:FEW])
    write_lines(folder / "vocabulary", names[SPECIALS:])
    write_lines(folder / "dictionary", [f"{name} 1" for name in names[SPECIALS:]])
    numbered = {name: number for number, name in enumerate(["<pad>", UNKNOWN, "<s>", "</s>", *names[SPECIALS:]])}
    (folder / "vocabulary.json").write_text(json.dumps(numbered, ensure_ascii=False), encoding="utf-8")
    settings = config.train
    plan = BatchPlan(split, settings.batch, settings.batch_unit, settings.seed, settings.sort_by)
    taken, _ = plan.take(Cursor(), batches)
    rows = [[[side.tolist() for side in pairs[number]] for number in numbers] for numbers in taken]
    write_lines(folder / "batches.jsonl", [json.dumps(row) for row in rows])
