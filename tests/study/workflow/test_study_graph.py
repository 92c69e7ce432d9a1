"""What a graph of steps and a study's folder refuse."""

from __future__ import annotations

import json

import pytest

from posnmt.base.errors import UserError
from posnmt.study.workflow import runner
from tests.support.study_case import Study


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_faults_of_a_graph(study):
    study.step("one", "wirte", needs={"it": "absent"})
    study.step("one")
    with pytest.raises(UserError) as caught:
        _ = study.graph
    assert "two steps are called 'one'; give one of them another name" in caught.value.lines
    study.steps.pop()
    with pytest.raises(UserError) as caught:
        _ = study.graph
    assert caught.value.lines[0].startswith("no kind of step is called 'wirte' (one); there are: write,")
    assert caught.value.lines[1] == "the step 'one' needs 'absent' as it, which is no step"


def test_steps_in_a_circle(study):
    study.step("one", needs={"it": "two"})
    study.step("two", needs={"it": "one"})
    with pytest.raises(UserError, match=r"in a circle: one needs two needs one|two needs one needs two"):
        _ = study.graph


def test_steps_are_in_the_preferred_order_after_what_they_need(study):
    study.step("text")
    study.step("use", needs={"it": "made"})
    study.step("made", needs={"it": "text", "and": "more"})
    study.step("alone")
    study.step("more")
    assert study.graph.order() == ["text", "more", "made", "use", "alone"]


def test_a_folder_belongs_to_a_study(tmp_path):
    out = tmp_path / "study"
    out.mkdir()
    (out / ".study.json.0123abcd.partial").touch()  # of a process that was killed
    runner.open_study(out, "mine", "hash")
    about = (out / "study.json").read_text()
    runner.open_study(out, "mine", "hash")
    assert (out / "study.json").read_text() == about
    runner.open_study(out, "mine", "edited")
    assert json.loads((out / "study.json").read_text())["hash"] == "edited"
    with pytest.raises(UserError, match=r"made by the recipe 'mine', not 'other' \(.*choose another --out"):
        runner.open_study(out, "other", "hash")
    (out / "study.json").write_text(json.dumps({"format": 2, "recipe": "mine", "posnmt": "9.0"}))
    with pytest.raises(UserError, match=r"written by a newer posnmt, in format 2.*study\.json"):
        runner.open_study(out, "mine", "hash")
    (out / "study.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        runner.open_study(out, "mine", "hash")
    (out / "study.json").unlink()
    (out / "other").touch()
    with pytest.raises(UserError, match="is not empty, and is not a study's"):
        runner.open_study(out, "mine", "hash")
    with pytest.raises(UserError, match="the study's folder is a file"):
        runner.open_study(out / "other", "mine", "hash")


def test_only_a_study_keeps_the_hashes_of_its_inputs(study, tmp_path):
    """`plan` needs them too: what it left in an empty folder would keep `run` from it."""
    (tmp_path / "file").write_text("text")
    study.step("one", files={"corpus": tmp_path / "file"})
    study.out.mkdir()
    study.folder("one")
    assert not list(study.out.iterdir())
    runner.open_study(study.out, "mine", "hash")
    study.folder("one")
    assert list(json.loads((study.out / "hashes.json").read_text())) == [str(tmp_path / "file")]
