"""Placeholders, addresses and paths in translations: lost by the model alone, and kept in three ways.

    python benchmarks/protected_spans.py ../shared/data/ende_manpages --out build/spans

Words that manual pages mark in both languages (`B<ls>`) stand for spans: in the test lines they become `{ls}`, `%1$s`,
`` `ls` ``, `<x1>`, a path or an address. One model is trained without marks; it never sees a span. One is trained with
an opaque character in place of each span, as toolkits do that mask them. Both have the same settings and updates.

- nothing: the model reads and writes the spans, `protect: off`
- repaired: the same, and a lost span replaces the words that are aligned to it
- taken out: what `protect: auto` does, by alignments
- opaque: the model with opaque characters

Trainings that exist in --out are not made again.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import sacrebleu

import posnmt
from posnmt.translate.spans import find

MARKED = re.compile(r"[BI]<([^<>\s]+)>")
ANY_MARK = re.compile(r"[BI]<([^<>]*)>")
OPAQUE = [chr(0xE000 + number) for number in range(9)]
KINDS: list[Callable[[str, int], str]] = [
    lambda word, number: "{" + re.sub(r"\W", "", word or "x") + "}",
    lambda word, number: f"%{number + 1}$s",
    lambda word, number: f"`{word}`",
    lambda word, number: f"<x{number}>",
    lambda word, number: f"/usr/{word.strip('/')}",
    lambda word, number: f"https://example.org/{word.strip('/')}",
]

Pair = tuple[str, str]


def read(folder: Path, name: str) -> list[str]:
    packed = folder / f"{name}.xz"
    content = lzma.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    return content.decode().split("\n")[:-1]


def converted(pair: Pair, written: Callable[[str, int], str]) -> tuple[Pair, list[str]]:
    """A pair with something written for each word that is marked once on both sides, and these words."""
    marked = [Counter(MARKED.findall(side)) for side in pair]
    same = [word for word, times in marked[0].items() if times == marked[1][word] == 1][: len(OPAQUE)]
    numbers = {word: number for number, word in enumerate(same)}

    def side(text: str) -> str:
        text = MARKED.sub(lambda m: written(m[1], numbers[m[1]]) if m[1] in numbers else m[1], text)
        return ANY_MARK.sub(r"\1", text).replace("\\-", "-").replace("\\&", "")

    return (side(pair[0]), side(pair[1])), same


def as_span(word: str, number: int) -> str:
    return KINDS[(crc32(word.encode()) + number) % len(KINDS)](word, number)


WRITTEN = {"plain": lambda word, number: word, "opaque": lambda word, number: OPAQUE[number]}


def train(corpus: Path, out: Path, kind: str, updates: int) -> None:
    for split in ("train", "dev"):
        pairs = zip(read(corpus, f"{split}.en"), read(corpus, f"{split}.de"), strict=True)
        kept = [converted(pair, WRITTEN[kind])[0] for pair in pairs if len(pair[0].split()) <= 60]
        kept = [pair for pair in kept if all(side.strip() for side in pair)]
        for side, ending in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in kept)
            (out / f"{split}.{kind}.{ending}").write_text(text, encoding="utf-8")
    files = {split: {"source": f"{split}.{kind}.en", "target": f"{split}.{kind}.de"} for split in ("train", "dev")}
    settings = {"steps": updates, "evaluate_every": updates, "dev_bleu": False, "best_by": "perplexity"}
    posnmt.train({"data": {"root": str(out), "max_length": 100, **files}, "train": settings}, out=out / kind)


def report(name: str, sources: list[str], outputs: list[str], references: list[str]) -> None:
    wanted = [Counter(line[start:end] for start, end in find(line)) for line in sources]
    kept = sum(
        min(number, output.count(span))
        for each, output in zip(wanted, outputs, strict=True)
        for span, number in each.items()
    )
    total = sum(each.total() for each in wanted)
    bleu, chrf = (metric(outputs, [references]).score for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf))
    print(f"| {name} | {kept} of {total} | {bleu:.1f} | {chrf:.1f} |", flush=True)


def repaired(model: posnmt.TrainedModel, sources: list[str]) -> list[str]:
    outputs = []
    for line, [best, *_] in zip(sources, model.hypotheses(sources, protect="off", alignments=True), strict=True):
        edits = []
        for start, end in find(line):
            if line[start:end] in best.text:
                continue
            words = {place for place, word in enumerate(best.source_words) if word.start < end and word.end > start}
            linked = sorted({target for source, target in best.alignment if source in words})
            at = (best.words[linked[0]].start, best.words[linked[0]].end) if linked else (len(best.text),) * 2
            edits.append((*at, line[start:end] if linked else f" {line[start:end]}"))
        text, last = "", 0
        for start, end, span in sorted(edits):
            text, last = text + best.text[last : max(last, start)] + span, max(last, end)
        outputs.append(text + best.text[last:])
    return outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=1200)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for kind in WRITTEN:
        if not (given.out / kind / "model.safetensors").exists():
            train(given.corpus, given.out, kind, given.updates)
    pairs = zip(read(given.corpus, "test.en"), read(given.corpus, "test.de"), strict=True)
    chosen = [
        (pair, words)
        for pair in pairs
        if 5 <= len(pair[0].split()) <= 50 and 1 <= len(words := converted(pair, as_span)[1]) <= 4
    ]
    tests = [converted(pair, as_span)[0] for pair, _ in chosen]
    sources, references = [source for source, _ in tests], [reference for _, reference in tests]
    plain, opaque = (posnmt.load(given.out / kind) for kind in WRITTEN)
    print(f"{len(tests)} lines\n\n| | spans kept | BLEU | chrF |\n|---|---|---|---|")
    report("nothing", sources, plain.translate(sources, protect="off"), references)
    report("repaired", sources, repaired(plain, sources), references)
    report("taken out", sources, plain.translate(sources), references)
    masked = opaque.translate([converted(pair, WRITTEN["opaque"])[0][0] for pair, _ in chosen], protect="off")
    for place, (_, words) in enumerate(chosen):
        for number, word in enumerate(words):
            masked[place] = masked[place].replace(OPAQUE[number], as_span(word, number))
        masked[place] = re.sub(f"[{''.join(OPAQUE)}]", "", masked[place])
    report("opaque", sources, masked, references)


if __name__ == "__main__":
    main()
