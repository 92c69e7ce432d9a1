"""The section `resources` of a recipe's scale: cores, GPUs, memory and time by kind of step."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posnmt.config.yaml import Section
from posnmt.study.workflow.kind import Resources

Positive = Annotated[int, Field(gt=0)]


class Wanted(Section):
    """Resources of a kind of step; missing values are taken from `all`, then from `DEFAULTS`."""

    gpus: Annotated[int, Field(ge=0)] | None = Field(None, description="GPUs, on each node")
    cores: Positive | None = Field(None, description="processor cores, on each node")
    memory: Annotated[float, Field(gt=0)] | None = Field(None, description="GiB, on each node")
    hours: Annotated[float, Field(gt=0)] | None = Field(None, description="time limit of a cluster's job")
    nodes: Positive | None = Field(None, description="machines")
    partition: Annotated[str, Field(min_length=1)] | None = Field(None, description="of a Slurm cluster")


class ByKind(Section):
    """Resources by kind of step; `all` is the default for every kind."""

    all: Wanted = Wanted()
    texts: Wanted = Field(Wanted(), description="steps that fetch or make texts: corpora, length parts, pre-orderers")
    prepare: Wanted = Field(Wanted(), description="subwords and encoding")
    train: Wanted = Wanted()
    translate: Wanted = Field(Wanted(), description="also where speeds are measured and references are scored")
    analyse: Wanted = Wanted()

    @model_validator(mode="after")
    def _only_training_in_processes(self) -> ByKind:
        for group in DEFAULTS:
            wanted = self.of(group)
            if group != "train" and (wanted.gpus > 1 or wanted.nodes > 1):
                raise ValueError(f"{group} asks for several GPUs or nodes, and only training uses more than one")
        return self

    def of(self, kind: str) -> Resources:
        """The resources of a kind of step, by its name in `posnmt.study.steps`."""
        group = kind if kind in DEFAULTS else "translate" if kind in ("speed", "likelihood") else "texts"
        asked = self.all.model_dump(exclude_none=True) | getattr(self, group).model_dump(exclude_none=True)
        wanted = DEFAULTS[group].model_dump(exclude_none=True) | asked
        return Resources(
            cores=wanted["cores"], gpus=wanted.get("gpus", 0), memory_gib=wanted["memory"],
            minutes=60 * wanted["hours"], nodes=wanted.get("nodes", 1), partition=wanted.get("partition"),
        )  # fmt: skip


DEFAULTS = {
    "texts": Wanted(cores=1, memory=2, hours=1),
    "prepare": Wanted(cores=1, memory=2, hours=1),
    "train": Wanted(cores=1, memory=8, hours=24),
    "translate": Wanted(cores=1, memory=4, hours=4),
    "analyse": Wanted(cores=2, memory=4, hours=1),
}
"""Group of kinds -> default resources, which are enough for small corpora."""
