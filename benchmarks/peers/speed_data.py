"""The corpus, prepared once, in the forms that the toolkits read: the same pairs in the same subwords for all."""

from __future__ import annotations

import json
from pathlib import Path

from opennmt_tanaka import write_lines

from posnmt.config.schema import Config
from posnmt.data.batch import BatchPlan, Cursor
from posnmt.data.prepare import prepare
from posnmt.data.subword import SPECIALS, UNK

SOURCE, TARGET = "en", "ja"
UNKNOWN = "<unk>"
FEW = 50
"""Pairs of the validation set, which some toolkits insist on, where the configuration has no dev corpus."""

ROWS = 64
"""Pairs of a batch of the dev corpus."""


def write_data(config: Config, batches: int, folder: Path) -> None:
    """Prepare the store of a configuration, and write its training pairs as text for other toolkits.

    `train` and `valid` (`.en`, `.ja`) have subwords between blanks; `vocabulary`, `dictionary` (with counts) and
    `vocabulary.json` (with the special symbols, by number) the subwords; `batches.jsonl` the first batches of posnmt's
    own order as numbers, one a line, for a toolkit that brings no data loader; `valid.jsonl` the dev corpus alike, in
    its own order.

    Args:
        config: a posnmt configuration; `data.store` is where the store goes.
        batches: how many batches `batches.jsonl` holds.
        folder: where the files go; it exists.
    """
    store = prepare(config)
    split, names = store.split("train"), store.text.source.subwords.pieces
    names[UNK] = UNKNOWN
    pairs = [split.pair(index) for index in range(len(split))]
    dev = store.split("dev") if config.data.dev is not None else None
    valid = pairs[:FEW] if dev is None else [dev.pair(index) for index in range(len(dev))]
    for name, part in (("train", pairs), ("valid", valid)):
        for side, language in enumerate((SOURCE, TARGET)):
            lines = [" ".join(names[number] for number in pair[side]) for pair in part]
            write_lines(folder / f"{name}.{language}", lines)
    write_lines(folder / "vocabulary", names[SPECIALS:])
    write_lines(folder / "dictionary", [f"{name} 1" for name in names[SPECIALS:]])
    numbered = {name: number for number, name in enumerate(["<pad>", UNKNOWN, "<s>", "</s>", *names[SPECIALS:]])}
    (folder / "vocabulary.json").write_text(json.dumps(numbered, ensure_ascii=False), encoding="utf-8")
    settings = config.train
    plan = BatchPlan(split, settings.batch, settings.batch_unit, settings.seed, settings.sort_by)
    taken, _ = plan.take(Cursor(), batches)
    rows = [[[side.tolist() for side in pairs[number]] for number in numbers] for numbers in taken]
    write_lines(folder / "batches.jsonl", [json.dumps(row) for row in rows])
    numbers = [[side.tolist() for side in pair] for pair in valid]
    write_lines(folder / "valid.jsonl", [json.dumps(numbers[at : at + ROWS]) for at in range(0, len(numbers), ROWS)])
