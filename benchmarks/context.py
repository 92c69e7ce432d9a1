"""What `train.context` and `translate --join` do on the built-in language pair, with the demo's relative model.

    python benchmarks/context.py --out FOLDER [--updates 1200]

Documents are ten consecutive sentences. The first table has BLEU of test sentences as long as those of training,
translated alone and together: no sentence needs another one there, so it shows what the longer input costs. For the
second, every second sentence has a word at its end whose translation depends on a word of the sentence before, one of
two: how often it is right.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import sacrebleu

from posnmt.cli.demo import LONGEST, SYSTEMS, _config
from posnmt.corpora.artificial.pairs import command as artificial
from posnmt.run.resolve import from_tree
from posnmt.training.train import train
from posnmt.translate.command import translate_file
from posnmt.translate.source import Files

WORDS = {"rok": ("korin", "tisor"), "lum": ("malun", "tisul")}
"""The last word of a first sentence → its translation, and that of `tis`, the last word of the second."""


def corpus(folder: Path, document: int, pairs: int) -> Path:
    """The built-in pair, with a document id for so many sentences each."""
    if not folder.exists():
        artificial(folder, train=pairs, max_length=LONGEST, test_max_length=LONGEST, seed=1)
        for split in ("train", "dev", "test"):
            count = len((folder / f"{split}.source").read_text(encoding="utf-8").splitlines())
            ids = "".join(f"d{number // document}\n" for number in range(count))
            (folder / f"{split}.ids").write_text(ids, encoding="utf-8")
    return folder


def dependent(folder: Path) -> Path:
    """The built-in pair in documents of two sentences, the second of which depends on the first."""
    if folder.exists():
        return folder
    corpus(folder, 2, 10_000)
    generator = random.Random(1)
    for split in ("train", "dev", "test"):
        files = [folder / f"{split}.{side}" for side in ("source", "target")]
        sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in files)
        for first in range(0, len(sources) - 1, 2):
            word = generator.choice(list(WORDS))
            for side, ends in ((sources, (word, "tis")), (targets, WORDS[word])):
                side[first] += f" {ends[0]}"
                side[first + 1] += f" {ends[1]}"
        for file, lines in zip(files, (sources, targets), strict=True):
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def outputs(out: Path, text: Path, context: int, updates: int) -> dict[int, list[str]]:
    """Lines translated together → the translations of the test text, by a model trained with so much context."""
    tree = _config(text, out / "stores", SYSTEMS["relative"], updates, seed=1)
    if context > 1:
        tree["data"]["train"]["documents"] = str(text.resolve() / "train.ids")
        tree["train"]["context"] = context
    run = train(from_tree(tree), out / f"{text.name}-{context}")
    translated = {}
    for join in range(1, context + 1):
        file = run.folder / f"test.{join}"
        documents = text / "test.ids" if join > 1 else None
        search = {"beam": 1, "join": join}
        translate_file(run.folder, Files(text / "test.source", file, documents=documents), search)
        translated[join] = file.read_text(encoding="utf-8").splitlines()
    return translated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=1200)
    arguments = parser.parse_args()
    plain = corpus(arguments.out / "plain", 10, 20_000)
    references = (plain / "test.target").read_text(encoding="utf-8").splitlines()
    for context in (1, 2, 3):
        for join, lines in outputs(arguments.out, plain, context, arguments.updates).items():
            score = sacrebleu.corpus_bleu(lines, [references]).score
            print(f"train.context {context}, --join {join}: BLEU {score:.1f}", flush=True)
    text = dependent(arguments.out / "dependent")
    references = (text / "test.target").read_text(encoding="utf-8").splitlines()[1::2]
    for join, lines in outputs(arguments.out, text, 2, arguments.updates * 7 // 12).items():
        pairs = zip(lines[1::2], references, strict=True)
        right = sum(line.split()[-1:] == reference.split()[-1:] for line, reference in pairs)
        print(
            f"a word that depends on the sentence before, --join {join}: {right / len(references):.1%} right",
            flush=True,
        )


if __name__ == "__main__":
    main()
