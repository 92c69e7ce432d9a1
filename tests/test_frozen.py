"""Names that files outside the package hold: folders and settings from before a change go on working after it.

`tests/frozen/` has a run folder that goes on, one that has learned a little, their corpus and its store, and the names
that were in use, as posnmt 0.1.0 writes them.
`python -m tests.test_frozen` adds what is new to `names.json`, and refuses to change or to
take away what is there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from posnmt.data.prepare import prepare
from posnmt.run.resolve import json_schema, load
from posnmt.run.run import Run
from posnmt.study.load import load as load_recipe
from posnmt.study.load import shipped
from posnmt.study.plan import KINDS, plan
from posnmt.study.workflow.graph import Graph
from posnmt.training.train import train
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from tests.support.tiny import NAMED, build

FROZEN = Path(__file__).with_name("frozen")
NAMES = FROZEN / "names.json"
CONTINUED = 8
"""How many steps the run is trained for; the frozen one has 6."""


def weights() -> dict[str, list[str]]:
    """Name of a tiny model -> the names of its weights, without what `transformer` has; a layer's number is `*`."""
    names = {
        name: {re.sub(r"\.\d+\.", ".*.", key) for key in build(**part).state_dict()} for name, part in NAMED.items()
    }
    common = names["transformer"]
    return {name: sorted(keys if name == "transformer" else keys - common) for name, keys in names.items()}


def settings() -> list[str]:
    """The path of every setting of a configuration."""
    schema = json_schema()

    def paths(section: dict[str, Any], prefix: str) -> list[str]:
        made = []
        for key, value in section.get("properties", {}).items():
            made.append(prefix + key)
            for choice in [value, *value.get("anyOf", []), *value.get("allOf", [])]:
                if "$ref" in choice:
                    made += paths(schema["$defs"][choice["$ref"].rsplit("/", 1)[1]], f"{prefix}{key}.")
        return made

    return sorted(set(paths(schema, "")))


def steps() -> dict[str, str]:
    """`recipe: kind` -> a digest of the keys of its steps at the scale `smoke`, without the analyses."""
    digests = {}
    for name in shipped():
        graph = Graph(plan(load_recipe(name), "smoke", None).steps.values(), KINDS)
        kinds: dict[str, list[str]] = {}
        for step in graph.order():
            kinds.setdefault(graph.steps[step].kind, []).append(f"{step} {graph.key(step)}")
        for kind, lines in sorted(kinds.items()):
            digests[f"{name}: {kind}"] = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
    return digests


def names() -> dict[str, Any]:
    """All that is frozen by name."""
    return {"settings": settings(), "weights": weights(), "steps": steps()}


@pytest.fixture(scope="module")
def frozen() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(NAMES.read_text(encoding="utf-8"))
    return content


def test_no_setting_has_gone(frozen):
    assert set(frozen["settings"]) <= set(settings())


def test_weights_have_the_names_that_checkpoints_have(frozen):
    assert weights() == frozen["weights"]


def test_steps_of_shipped_recipes_keep_their_keys(frozen):
    """A finished step counts in a later posnmt, unless its kind has a new version, or its settings other values."""
    assert steps() == frozen["steps"]


@pytest.fixture
def copied(tmp_path):
    """The frozen folder elsewhere, to be written to."""
    shutil.copytree(FROZEN, tmp_path / "frozen")
    return tmp_path / "frozen"


def test_a_store_is_found_again(copied):
    (folder,) = (copied / "stores").iterdir()
    changed = folder.stat().st_mtime_ns
    assert prepare(load(copied / "config.yaml")).folder == folder
    assert folder.stat().st_mtime_ns == changed


def test_a_run_translates_as_it_did(copied):
    lines = (copied / "dev.source").read_text(encoding="utf-8").splitlines()
    run = Run.open(copied / "learned")
    outputs = [each.text for each in Translator.load([run]).translate(numbered(lines), Search(run.config.decode))]
    assert outputs == (copied / "dev.output").read_text(encoding="utf-8").splitlines()


def test_a_run_goes_on(copied, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # a GPU draws other numbers for dropout
    train(load(copied / "config.yaml", [f"train.steps={CONTINUED}"]), copied / "run", resume=True)
    lines = [json.loads(line) for line in (copied / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}
    expected = json.loads((copied / "losses.json").read_text(encoding="utf-8"))
    assert losses == {int(step): pytest.approx(loss, rel=1e-5) for step, loss in expected.items()}


if __name__ == "__main__":
    now = names()
    before = json.loads(NAMES.read_text(encoding="utf-8")) if NAMES.exists() else now
    assert set(before["settings"]) <= set(now["settings"])
    for group in ("weights", "steps"):
        gone = [name for name, value in before[group].items() if now[group].get(name) != value]
        assert not gone, f"{group}: {', '.join(gone)} would change"
    NAMES.write_text(json.dumps(now, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
