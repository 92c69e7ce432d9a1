"""The alignment error rate of a run on parallel text with known links, by forced decoding of the target.

    python benchmarks/alignments.py demo/.../relative --source test.source --target test.target --links test.align

Links are lines such as `0-0 1-2`, of words between blanks. Where they come from another aligner, the rate says how far
the two disagree. Texts must not be tokenised by the run (`tokenise: none`), so that its words are those between blanks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from posnmt.data.alignment import alignment_error_rate, read_alignment, tokens
from posnmt.run.run import Run
from posnmt.translate.alignments import align
from posnmt.translate.translator import Translator
from posnmt.translate.words import spans


def main() -> None:
    """Print the rate."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path)
    for name in ("source", "target", "links"):
        options.add_argument(f"--{name}", type=Path, required=True)
    given = options.parse_args()
    lines = [path.read_text("utf-8").splitlines() for path in (given.source, given.target)]
    gold = read_alignment(
        given.links, [(tokens(source), tokens(target)) for source, target in zip(*lines, strict=True)]
    )
    translator = Translator.load([Run.open(given.run)])
    text = translator.text
    sources, targets = (side.encode(each) for side, each in zip((text.source, text.target), lines, strict=True))
    aligned = align(translator.models, text.source, lines[0], sources, [[target] for target in targets], 4096)
    links = [
        frozenset(each.links(0, spans(text.target, line, target)))
        for each, line, target in zip(aligned, lines[1], targets, strict=True)
    ]
    print(f"{alignment_error_rate(links, gold):.3f} of {len(links):,} pairs")


if __name__ == "__main__":
    main()
