"""How many lines of each corpus a rule of `subword.normalisation` changes, beyond runs of blanks: a table by side.

python benchmarks/normalisation.py ../shared/data
"""

from __future__ import annotations

import lzma
import re
import sys
from pathlib import Path

from posnmt.config.schema import Subword
from posnmt.data.subword import BLANK, Subwords

RULES = ("identity", "nfkc", "nmt_nfkc")
SIDES = re.compile(r"\.(de|en|ja|zh)(\.xz)?$")
EXAMPLE = ["the text that a rule is learned with does not matter"] * 10


def lines_of(path: Path) -> list[str]:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


def main() -> None:
    root = Path(sys.argv[1])
    by_rule = [Subwords.learn(EXAMPLE, Subword(vocabulary=30, normalisation=rule), "shared") for rule in RULES]
    print(f"| corpus | side | lines | {' | '.join(RULES)} |\n|---|---|---|{'---|' * len(RULES)}")
    counts: dict[tuple[str, str], list[int]] = {}
    for path in sorted(root.glob("*/*")):
        if match := SIDES.search(path.name):
            lines = [re.sub(" +", " ", line).strip(" ") for line in lines_of(path)]
            of_side = counts.setdefault((path.parent.name, match[1]), [0] * (1 + len(RULES)))
            of_side[0] += len(lines)
            for number, subwords in enumerate(by_rule, 1):
                again = (subwords.normalised(line).replace(BLANK, " ").strip(" ") for line in lines)
                of_side[number] += sum(one != other for one, other in zip(lines, again, strict=True))
    for (corpus, side), (total, *changed) in sorted(counts.items()):
        shares = (f"{number:,} ({100 * number / total:.1f} %)" if number else "0" for number in changed)
        print(f"| {corpus} | {side} | {total:,} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
