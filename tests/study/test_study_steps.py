"""The steps of a study by hand: what a function of `posnmt.study.steps` makes of small inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from posnmt.base.errors import UserError
from posnmt.config.schema import Config
from posnmt.corpora.catalogue import entry
from posnmt.data.length_unit import length_unit
from posnmt.data.prepare import prepare
from posnmt.data.text import TextPipeline
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.measures import COMPLETENESS
from posnmt.evaluation.analyse.seeds import seed_groups
from posnmt.evaluation.analyse.settings import Settings
from posnmt.study import evidence, steps, study
from posnmt.study.load import load
from posnmt.study.workflow.kind import Context, Resources
from tests.support.commands import run


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def context(folder: Path, settings: dict[str, Any], inputs: dict[str, Path] | None = None, **files: Path) -> Context:
    out = folder / "step"
    out.mkdir()
    named = {name.replace("_", "."): path for name, path in files.items()}
    return Context(out, settings, inputs or {}, named, Resources(), lambda line: None)


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["赤い。", "青い。"], "赤い。青い。"),
        (["赤 い 。", "青 い 。"], "赤 い 。 青 い 。"),
        (["red.", "blue."], "red. blue."),
    ],
)
def test_joined_sentences_have_a_blank_between_where_words_have(lines: list[str], joined: str, tmp_path: Path) -> None:
    """Whatever the language: a corpus of Japanese may be cut into words."""
    for side in ("source", "target"):
        write(tmp_path / "text" / side, *lines)
    write(tmp_path / "text" / "documents", "a", "a")
    settings = {"sentences": 2, "rest": "drop", "pair": {"source": "ja", "target": "ja"}}
    made = context(tmp_path, settings, {"text": tmp_path / "text"})
    steps.join(made)
    assert [lines_of(made.folder / side) for side in ("source", "target")] == [[joined], [joined]]


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({"rest": "keep", "documents": False}, 14_038),  # R19 Table 3: 940 + 5903 + 4709 + 1755 + 731
        ({"rest": "drop", "documents": False}, 14_037),
        ({"rest": "keep"}, 14_041),  # a rest in each of three sets
        ({"rest": "drop"}, 14_034),
    ],
)
def test_as_many_lines_are_joined_as_in_r19(settings: dict[str, Any], lines: int, tmp_path: Path) -> None:
    """28,075 lines of newstest2008 to 2018 without 2015, as many of each as the catalogue has."""
    sizes = [entry(f"newstest{year}-de-en").pairs or 0 for year in range(2008, 2019) if year != 2015]
    for side in ("source", "target"):
        write(tmp_path / "text" / side, *(f"{number}." for number in range(sum(sizes))))
    write(tmp_path / "text" / "documents", *(f"set-{number}" for number, size in enumerate(sizes) for _ in range(size)))
    pair = {"source": "de", "target": "en"}
    made = context(tmp_path, {"sentences": 2, **settings, "pair": pair}, {"text": tmp_path / "text"})
    steps.join(made)
    assert len(lines_of(made.folder / "source")) == len(lines_of(made.folder / "target")) == lines
    if settings == {"rest": "keep", "documents": False}:
        assert lines_of(made.folder / "source")[1025] == "2050. 2051."  # of two sets
        assert lines_of(made.folder / "source")[-1] == "28074."


def test_a_licensed_corpus_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is named once, in the command of the refusal; a study in the other direction finds the text, too."""
    monkeypatch.setenv("POSNMT_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "ASPEC-JE" / "dev" / "dev.txt", "J-1 ||| 1 ||| 文。 ||| A line .")
    pair = {"source": "en", "target": "ja"}
    made = context(tmp_path, {"corpus": {"name": "aspec-dev-ja-en"}, "pair": pair})
    with pytest.raises(UserError, match="data fetch aspec-dev-ja-en --from FOLDER"):
        steps.fetch(made)
    run("data", "fetch", "aspec-dev-ja-en", "--from", tmp_path / "ASPEC-JE")
    steps.fetch(made)
    assert [lines_of(made.folder / part) for part in ("source", "target")] == [["A line ."], ["文。"]]


def test_a_part_of_a_text_is_evenly_spread(tmp_path: Path) -> None:
    ten = [str(number) for number in range(10)]
    files = {"0_source": write(tmp_path / "a", *ten), "0_target": write(tmp_path / "b", *ten)}
    made = context(tmp_path, {"texts": [{"take": 4}]}, **files)
    steps.corpus(made)
    assert lines_of(made.folder / "source") == lines_of(made.folder / "target") == ["0", "2", "5", "7"]


def test_lines_of_a_text(tmp_path: Path) -> None:
    ten = [str(number) for number in range(1, 11)]
    files = {"0_source": write(tmp_path / "a", *ten), "0_target": write(tmp_path / "b", *ten)}
    files |= {"1_source": files["0_source"], "1_target": files["0_target"]}
    made = context(tmp_path, {"texts": [{"take": 2, "lines": [3, 6]}, {"take": None, "lines": [9, 20]}]}, **files)
    steps.corpus(made)
    assert lines_of(made.folder / "source") == lines_of(made.folder / "target") == ["3", "5", "9", "10"]


def test_consecutive_lines_of_a_document_are_joined(tmp_path: Path) -> None:
    """Lines are chosen, then joined, then spread; the third of a document is left out. Another text stays as it is."""
    source, target, documents = "abcdefghij", "ABCDEFGHIJ", "1112222233"
    files = {
        "0_source": write(tmp_path / "a", *source),
        "0_target": write(tmp_path / "b", *target),
        "0_documents": write(tmp_path / "c", *(f"{each}\tx" for each in documents)),
    }
    files |= {f"1_{part}": files[f"0_{part}"] for part in ("source", "target", "documents")}
    pieces = [{"take": None, "lines": [9, 10]}, {"take": 2, "lines": [1, 9], "join": 2}]
    made = context(tmp_path, {"texts": pieces}, **files)
    steps.corpus(made)
    assert lines_of(made.folder / "source") == ["i", "j", "a b", "d e"]
    assert lines_of(made.folder / "target") == ["I", "J", "A B", "D E"]
    assert {path.name for path in made.folder.iterdir()} == {"source", "target"}


def test_a_limit_of_training_is_the_recipes_own(tmp_path: Path) -> None:
    """A recipe that counts epochs has no limit of steps besides, and one without a limit is refused."""
    inputs = {"train": tmp_path, "dev": tmp_path}
    made = context(tmp_path, {"part": None}, inputs)
    found = steps._config(made, {"train": {"epochs": 10}}).train
    assert (found.steps, found.epochs) == (None, 10)
    with pytest.raises(UserError, match="set when to stop"):
        steps._config(made, {"train": {"seed": 1}})
    assert steps._config(made, {}).data.train.source == str(tmp_path / "source")  # to prepare a text


def test_the_speed_of_training_is_the_median_of_what_was_logged(tmp_path: Path) -> None:
    """So that a pause, or a slow first step, does not count; lines of evaluations have no speed."""
    lines = [{"kind": "train", "source_tokens_per_second": speed} for speed in (10.0, 990.0, 1000.0)]
    write(tmp_path / "metrics.jsonl", *map(json.dumps, [lines[0], {"kind": "dev"}, *lines[1:]]))
    assert steps.training_speed(tmp_path) == 990.0


class Stop(Exception):
    """The analysis was called."""


SOURCE, TARGET = "a (b), c", "Rot, blau (und) grün."


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared text, tokenised by Moses' rules, as a step leaves it."""
    folder = tmp_path_factory.mktemp("prepared")
    source = [f"a (b), c number {number}" for number in range(200)]
    for split in ("train", "dev"):
        write(folder / f"{split}.source", *source)
        write(folder / f"{split}.target", *([TARGET] * 200))
    corpora = {split: {side: f"{split}.{side}" for side in steps.SIDES} for split in ("train", "dev")}
    data = {"root": str(folder), "tokenise": "moses", **corpora}
    settings = {"data": data, "subword": {"vocabulary": 60}, "train": {"steps": 1}}
    prepare(Config.model_validate(settings), folder / "stores")
    return folder / "stores"


def analysis(folder: Path, prepared: Path, **settings: Any) -> Context:
    """A step that measures the outputs of three systems, trained on lengths 3 to 20, 2 to 30 and 4 to 10."""
    inputs = {"prepared": prepared, "test": folder / "test"}
    write(folder / "test" / "source", SOURCE)
    write(folder / "test" / "target", TARGET)
    outputs = []
    for number, (shortest, longest) in enumerate([(3, 20), (2, 30), (4, 10)]):
        run = inputs[f"run-{number}"] = folder / f"run-{number}"
        output = inputs[f"output-{number}"] = folder / f"output-{number}"
        record = {
            "training_lengths": {
                "source": {"shortest": shortest, "longest": longest},
                "target": {"shortest": 1, "longest": longest + 5},
            },
            "parameters": 7,
        }
        write(run / "run" / "record.json", json.dumps(record))
        write(run / "run" / "metrics.jsonl", json.dumps({"kind": "dev"}))
        write(output / "output", TARGET.lower())
        write(output / "speed.json", json.dumps({"output": {"source_subwords": 30, "seconds": 4}}))
        outputs.append({"label": f"system {number}", "system": f"s{number}", "training": "all", "seed": 1})
    default = {"seeds": 1, "shares": [], "text": "raw", "bins": None, "metrics": ["bleu"], "bleu_tokenizer": "13a"}
    return context(folder, {**default, "outputs": outputs, **settings}, inputs)


def measured(made: Context, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the step asks to be measured: options, and the lines of every text."""
    found: dict[str, Any] = {}

    def analyse(source: Path, reference: Path, outputs: dict[str, Path], settings: Settings, *more: Any) -> None:
        texts = {"source": source, "reference": reference, **outputs}
        found.update(vars(settings), **{name: lines_of(path) for name, path in texts.items()})
        raise Stop

    monkeypatch.setattr("posnmt.evaluation.analyse.analyse.analyse", analyse)
    with pytest.raises(Stop):
        steps.analyse(made)
    return found


def test_the_lengths_of_every_training_are_known(
    tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = analysis(tmp_path, prepared, bins=[2, 3])
    found = measured(made, monkeypatch)
    assert sorted(found["trained_lengths"]) == [[2, 30], [3, 20], [4, 10]]
    assert found["bin_edges"] == [2, 3]
    assert [each["decoding_speed"] for each in steps._outputs(made)] == [7.5] * 3


def test_documents_of_a_test_are_those_of_its_text(tmp_path: Path, prepared: Path) -> None:
    """By the first field; none where the text has none, or the plan does not ask."""
    made = analysis(tmp_path, prepared, documents=True)
    assert steps.documents(made) is None
    write(made.inputs["test"] / "documents", "b one\nb two\na three")
    found = steps.documents(made)
    assert found is not None
    assert found.tolist() == [0, 0, 1]
    made.settings.pop("documents")
    assert steps.documents(made) is None


def test_outputs_have_the_seeds_that_their_names_say(tmp_path: Path, prepared: Path) -> None:
    """What follows a colon is a seed: two schemes of one family would be seeds of a system."""
    made = analysis(tmp_path, prepared)
    labels = ["RoPE: NTK", "RoPE: clipped", "RoPE"]
    for output, label in zip(made.settings["outputs"], labels, strict=True):
        output["label"] = label
    names = [each["name"] for each in steps._outputs(made)]
    assert names == ["RoPE: NTK:1", "RoPE: clipped:1", "RoPE"]
    assert seed_groups(names) == {}


def test_lengths_in_other_subwords_are_unknown(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = analysis(tmp_path, prepared)
    made.settings["outputs"][1]["other_subwords"] = True
    assert [each["trained_lengths"] for each in steps._outputs(made)] == [[3, 20], None, [4, 10]]
    assert [each["longest_target"] for each in steps._outputs(made)] == [25, None, 15]
    found = measured(made, monkeypatch)
    assert found["trained_lengths"] == [[3, 20], [4, 10]]
    for output in made.settings["outputs"]:
        output["other_subwords"] = True
    found = measured(made, monkeypatch)
    assert found["trained_lengths"] == []


def test_what_a_text_is_cut_into(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TextPipeline.load(next(prepared.glob("*/text")))
    words = "Rot , blau ( und ) grün ."
    subwords = text.target.subwords.split([words])[0]
    for cut, expected in (("raw", TARGET), ("words", words), ("subwords", " ".join(subwords))):
        folder = tmp_path / cut
        folder.mkdir()
        found = measured(analysis(folder, prepared, text=cut, target_language="de"), monkeypatch)
        assert found["reference"] == [expected]
        assert found["bleu_tokenizer"] == ("13a" if cut == "raw" else "none")
        if cut == "subwords":
            assert found["unit"] == "tokens"
            assert found["source"] == [" ".join(text.source.subwords.split(["a ( b ) , c"])[0])]
        else:
            assert found["system 0"] == [expected.lower()]
            assert found["source"] == [SOURCE]
            count = length_unit(found["unit"], found["subword_model"])
            assert count([SOURCE]) == [len(text.source.encode([SOURCE])[0])]


@pytest.mark.parametrize("asked", [False, True])
def test_completeness_is_measured_where_it_is_asked_for(tmp_path: Path, prepared: Path, asked: bool) -> None:
    """By the rules of the languages of the study; its counts are kept for verdicts, as those of metrics are."""
    pair = {"completeness": {"source": "en", "target": "de"}} if asked else {}
    made = analysis(tmp_path, prepared, **pair)
    found, outputs = steps.measured(made, Resampling(samples=0))
    assert ({*COMPLETENESS} <= {*found.additive.measures}) == asked
    evidence.save(made.folder, found.additive, found.source_lengths, outputs)
    assert ("omitted_sentences" in evidence.load(made.folder).measures) == asked
    if asked:
        assert found.results["completeness"]["languages"] == pair["completeness"]


def test_lengths_in_subwords_are_of_tokenised_text_where_training_tokenised(prepared: Path) -> None:
    folder = next(prepared.glob("*/text"))
    text = TextPipeline.load(folder)
    for side, line in (("source", SOURCE), ("target", TARGET)):
        count = length_unit("subwords", folder, side)
        assert count([line]) == [len(getattr(text, side).encode([line])[0])]
    # the model alone does not know that training parted a bracket from the words around it
    assert length_unit("subwords", folder)(["number(number"]) == [3]
    assert length_unit("subwords", folder / "source.model")(["number(number"]) > [3]


def test_bins_of_the_parts_that_were_cut(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bin ends with the longest source of its part, and one holds what is longer than all."""
    bracket = "a number(number"  # 4 subwords as training has it, more without tokenisation
    lines = [bracket, *(" ".join("a" * count) for count in (*[2] * 12, *[4] * 5, 3, 9, 9, 7))]
    write(tmp_path / "text" / "source", *lines)
    write(tmp_path / "text" / "target", *lines)
    splitting = tmp_path / "splitting"
    splitting.mkdir()
    split = context(splitting, {"parts": 3, "max_length": 8}, {"text": tmp_path / "text", "prepared": prepared})
    steps.length_split(split)
    parts = [lines_of(split.folder / str(number) / "source") for number in (1, 2, 3)]
    assert [max(len(line.split()) for line in part) for part in parts] == [2, 4, 7]
    assert bracket in parts[1]
    made = analysis(tmp_path, prepared, bins="parts")
    made.inputs["parts"] = split.folder
    assert measured(made, monkeypatch)["bin_edges"] == [3, 5, 8]


RECIPE = """
recipe: mine
title: Two words
pair: {source: en, target: de}
scales:
  smoke:
    seeds: 1
    corpora:
      train: {source: "train.{source}", target: "train.{target}"}
      dev: {source: "dev.{source}", target: "dev.{target}"}
      test: {source: "test.{source}", target: "test.{target}"}
    config: {model: {size: tiny}, train: {steps: 1}}
systems:
  relative: {system: relative}
tests:
  test: {corpus: test}
runs:
  - {systems: [relative], trainings: [all], tests: [test]}
analyses:
  test: {test: test, trainings: [all]}
"""


def test_nothing_is_trained_for_test_texts_that_cannot_be_made(tmp_path: Path) -> None:
    """A text with a line too few is found in the first seconds, not after the hours of all trainings."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    for name in ("train", "dev", "test"):
        write(tmp_path / f"{name}.en", "one", "two")
        write(tmp_path / f"{name}.de", "eins", *(["zwei"] if name != "test" else []))
    said: list[str] = []
    summary = study.run(load(str(recipe)), "smoke", tmp_path, tmp_path / "out", say=said.append)
    assert list(summary.failed) == ["corpus/test"]
    assert "target has 1 lines" in summary.failed["corpus/test"]
    assert not [line for line in said if line.startswith("started") and line != "started corpus/test"]
    assert said[-1] == "nothing is trained before the test texts are made"
