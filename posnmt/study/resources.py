"""The section `resources` of a recipe's scale: cores, GPUs, memory and time by kind of step."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from posnmt.config.yaml import Section
from posnmt.study.workflow.kind import Resources

Positive = Annotated[int, Field(gt=0)]


class Requested(Section):
    """Resources of a kind of step; missing values are taken from `all`, then from defaults for small corpora."""

    gpus: Annotated[int, Field(ge=0)] | None = Field(None, description="GPUs, on each node")
    cores: Positive | None = Field(None, description="processor cores, on each node")
    memory: Annotated[float, Field(gt=0)] | None = Field(None, description="GiB, on each node")
    hours: Annotated[float, Field(gt=0)] | None = Field(None, description="time limit of a cluster's job")
    nodes: Positive | None = Field(None, description="machines")
    partition: Annotated[str, Field(min_length=1)] | None = Field(None, description="partition of a Slurm cluster")


class ByKind(Section):
    """Resources by kind of step; `all` is the default for every kind."""

    all: Requested = Field(Requested(), description="every kind of step, unless it says otherwise")
    texts: Requested = Field(
        Requested(), description="steps that fetch or make texts: corpora, length parts, pre-orderers"
    )
    prepare: Requested = Field(Requested(), description="subwords and encoding")
    train: Requested = Field(Requested(), description="training")
    translate: Requested = Field(
        Requested(), description="translation, measurement of speeds and scoring of references"
    )
    analyse: Requested = Field(Requested(), description="analyses")

    @model_validator(mode="after")
    def _only_training_in_processes(self) -> ByKind:
        for group in DEFAULTS:
            requested = self.of(group)
            if group != "train" and (requested.gpus > 1 or requested.nodes > 1):
                raise ValueError(f"{group} asks for several GPUs or nodes, and only training uses more than one")
        return self

    def of(self, kind: str) -> Resources:
        """The resources of a kind of step, by its name in `posnmt.study.steps`."""
        group = kind if kind in DEFAULTS else "translate" if kind in ("speed", "likelihood") else "texts"
        asked = self.all.model_dump(exclude_none=True) | getattr(self, group).model_dump(exclude_none=True)
        requested = DEFAULTS[group].model_dump(exclude_none=True) | asked
        return Resources(
            cores=requested["cores"], gpus=requested.get("gpus", 0), memory_gib=requested["memory"],
            minutes=60 * requested["hours"], nodes=requested.get("nodes", 1), partition=requested.get("partition"),
        )  # fmt: skip


DEFAULTS = {
    "texts": Requested(cores=1, memory=2, hours=1),
    "prepare": Requested(cores=1, memory=2, hours=1),
    "train": Requested(cores=1, memory=8, hours=24),
    "translate": Requested(cores=1, memory=4, hours=4),
    "analyse": Requested(cores=2, memory=4, hours=1),
}
"""Group of kinds -> default resources, which are enough for small corpora."""
