"""Give the recipes of published studies today's claims, in place of those of a form that posnmt no longer reads.

    python benchmarks/claims_of_copies.py docs/results/*-small

All other settings stay as they were published, so the recipe still names the trainings that the copy has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from posnmt.base.files import read_json
from posnmt.base.output import write_text
from posnmt.config.yaml import read_yaml, written_yaml
from posnmt.study.copied import MARK
from posnmt.study.load import load


def main(copies: list[str]) -> None:
    """Write the recipe of each copy."""
    for copy in map(Path, copies):
        recipe = load((read_json(copy / MARK) or {})["recipe"], check_configs=False)
        tree, _ = read_yaml(copy / "recipe.yaml", "recipe", "a recipe is a YAML mapping")
        claims = [claim.model_dump(mode="json", by_alias=True, exclude_unset=True) for claim in recipe.claims]
        write_text(copy / "recipe.yaml", written_yaml({**tree, "claims": claims}))


if __name__ == "__main__":
    main(sys.argv[1:])
