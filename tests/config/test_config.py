"""The configuration: every fault at once, each with its place, its rule and its value; shipped configs load."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from posnmt.base.errors import UserError
from posnmt.cli.systems import describe, parts
from posnmt.config.schema import Config
from posnmt.config.systems import SYSTEMS
from posnmt.run.resolve import dump, from_tree, json_schema, load

ROOT = Path(__file__).parents[2]
GOOD = """\
data:
  train: {source: train.en, target: train.de}
  dev: {source: dev.en, target: dev.de}
model:
  system: relative
train:
  steps: 10
"""


def written(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(tmp_path, text, *overrides):
    path = written(tmp_path, text)
    with pytest.raises(UserError) as caught:
        load(path, overrides)
    return [line.replace(str(path), "config.yaml") for line in caught.value.lines]


def test_a_good_config_and_what_is_filled_in(tmp_path):
    config = load(written(tmp_path, GOOD))
    assert config.data.root == str(tmp_path)
    assert [choice.scheme for choice in config.model.encoder.position] == ["relative"]
    assert config.model.d_model == 512
    assert config.decode.beam == 4


def test_what_the_file_says_wins_over_size_and_system(tmp_path):
    text = GOOD.replace("system: relative", "system: relative\n  size: small\n  heads: 8\n  decoder: {layers: 2}")
    model = load(written(tmp_path, text)).model
    assert (model.d_model, model.feed_forward, model.heads) == (256, 1024, 8)
    assert (model.encoder.layers, model.decoder.layers) == (3, 2)
    assert [choice.scheme for choice in model.decoder.position] == ["relative"]


def test_norwegian_and_off_need_no_quotes(tmp_path):
    """By YAML 1.1 both are booleans."""
    text = GOOD.replace("data:\n", "data:\n  source_language: no\n") + "  learning_rate: 1e-3\ndecode: {split: off}\n"
    config = load(written(tmp_path, text), ["data.target_language=no"])
    assert (config.data.source_language, config.data.target_language, config.decode.split) == ("no", "no", "off")
    assert config.train.learning_rate == 0.001
    path = tmp_path / "again.yaml"
    path.write_text(dump(config))
    assert load(path) == config


def test_a_merge_key_is_no_repetition_and_a_repeated_key_is_a_fault(tmp_path):
    shared = GOOD.replace("train: {source", "train: &text {source").replace(
        "dev: {source: dev.en, target", "dev: {<<: *text, source: dev.en, target"
    )
    config = load(written(tmp_path, shared))
    assert (config.data.train.source, config.data.dev.source) == ("train.en", "dev.en")
    assert faults(tmp_path, GOOD + "  steps: 20\n") == [
        "steps occurs twice, on lines 7 and 8 (config.yaml:8); leave one of them out, or give it another name"
    ]


def test_all_faults_at_once_each_with_its_line(tmp_path):
    text = GOOD.replace("steps: 10", "steps: ten\n  lable_smoothing: 0.1\n  clip: -1") + "decode:\n  beam: 0\n"
    lines = faults(tmp_path, text)
    assert lines == [
        "train.steps: a whole number is needed, got 'ten' (config.yaml:7)",
        "train.clip: a number above 0 is needed, got -1 (config.yaml:9)",
        "unknown key train.lable_smoothing (config.yaml:8); did you mean 'label_smoothing'?",
        "decode.beam: a number above 0 is needed, got 0 (config.yaml:11)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("  steps: 10", "  seed: 1", "train: set when to stop: steps, epochs or minutes (config.yaml:6)"),
        (
            "system: relative",
            "system: relatve",
            "model.system: no system is called 'relatve' (config.yaml:5); did you mean",
        ),
        ("system: relative", "heads: 7", "d_model must be a multiple of heads; 512 is not a multiple of 7"),
        ("system: relative", "size: huge", "model.size: input should be 'tiny', 'small', 'base' or 'big', got 'huge'"),
        (
            "{source: train.en, target: train.de}",
            "{source: train.en}",
            "give source and target (two aligned files), or tsv",
        ),
        (
            "{source: train.en, target: train.de}",
            "{tsv: a, source: b}",
            "give either tsv, or source and target, not both",
        ),
        (
            "  dev: {source: dev.en, target: dev.de}\nmodel:\n  system: relative\ntrain:\n",
            "model:\n  system: relative\ntrain:\n  patience: 3\n",
            "the plateau schedule need a dev corpus: add data.dev or data.held_out, or leave them out",
        ),
        ("system: relative", "encoder: {position: [{scheme: shaw}]}", "no position scheme is called 'shaw'"),
        (
            "system: relative",
            "encoder: {position: [{scheme: relative, distnce: 3}]}",
            "relative has no option 'distnce'; did you mean 'distance'? (config.yaml:5)",
        ),
        (
            "system: relative",
            "encoder: {position: [{scheme: relative, distance: 0}]}",
            "relative.distance: Input should be gr",
        ),
        ("system: relative", "encoder: {position: [{scheme: learned}, {scheme: learned}]}", "learned is listed twice"),
        (
            "system: relative",
            "encoder: {position: [{scheme: relative, distance: 1000000000000}]}",
            "relative.distance: 1000000000000 is more than 100,000,000",
        ),
        (
            "system: relative",
            "d_model: 1000000000000",
            "model.d_model: a number of 100,000,000 or less is needed",
        ),
        (
            "system: relative",
            "{system: transformer, d_model: 15, heads: 3}",
            "model.encoder.position: sinusoidal needs an even d_model; 15 is odd",
        ),
        (
            "system: relative",
            "architecture: tranformer",
            "model.architecture: no architecture is called 'tranformer'; did you mean 'transformer'?",
        ),
        (
            "system: relative",
            "options: {depth: 3}",
            "model.options: transformer has no option 'depth'; its options: none",
        ),
        (
            "system: relative",
            "system: relative\n  without: encoder\n  encoder: {position: [{scheme: rope}]}",
            "model.without: encoder removes the position schemes of a named system, and model.encoder.position is",
        ),
        ("system: relative", "without: both", "model.without needs model.system (config.yaml:5)"),
        (
            "system: relative",
            "without: left",
            "model.without: input should be 'encoder', 'decoder' or 'both', got 'left'",
        ),
        ("system: relative", "tie_embeddings: all\nsubword: {shared: false}", "needs one vocabulary for both sides"),
        ("  train: {", "  truecase: true\n  train: {", "truecase works on tokenised text: set tokenise: moses as well"),
        (
            "  train: {",
            "  tokenise: {target: mecab}\n  truecase: true\n  target_language: ja\n  train: {",
            "truecase works on tokenised text: set tokenise: moses as well",
        ),
        (
            "  train: {",
            "  tokenise: moose\n  train: {",
            "data.tokenise: choose from none, moses, mecab, jieba, or write {source: ..., target: ...}; got 'moose' (c",
        ),
        (
            "  train: {",
            "  tokenise: {traget: mecab}\n  train: {",
            "data.tokenise: choose from none, moses, mecab, jieba",
        ),
        (
            "  train: {",
            "  tokenise: {source: moses, target: mecab}\n  train: {",
            "data: mecab segments Japanese, but target_language is 'de': set it to ja, or tokenise: {source: ...",
        ),
        (
            "  train: {",
            "  tokenise: jieba\n  target_language: zh-CN\n  train: {",
            "data: jieba segments Chinese, but source_language is 'en': set it to zh, or tokenise: {source: ...",
        ),
        ("system: relative", "dropout: 1.0", "model.dropout: a number below 1 is needed, got 1.0 (config.yaml:5)"),
        ("steps: 10", "steps: 10\n  learning_rate: .nan", "train.learning_rate: a finite number is needed"),
        ("steps: 10", "steps: 10\n  with_replacement: true", "draws a number of sentences: set batch_unit: sentences"),
        (
            "steps: 10",
            "steps: 10\n  with_replacement: true\n  batch_unit: sentences\n  sort_by: target",
            "train: with_replacement sorts nothing: leave sort_by out",
        ),
    ],
)
def test_sentences(tmp_path, old, new, sentence):
    text = GOOD.replace(f"model:\n  {old}", f"model: {new}") if new.startswith("{system") else GOOD.replace(old, new)
    assert any(sentence in line for line in faults(tmp_path, text)), faults(tmp_path, text)


def test_files_that_are_no_config(tmp_path):
    assert faults(tmp_path, "data: [1\n")[0].startswith("not valid YAML: ")
    assert faults(tmp_path, "- a\n")[0].startswith("a config is a YAML mapping")
    with pytest.raises(UserError, match=r"config does not exist \(.*absent.yaml\); check the path"):
        load(tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="config is a folder, not a file"):
        load(tmp_path)
    assert faults(tmp_path, "a: &x [*x]\n")[0].startswith(
        "not valid YAML: it is nested too deeply, or a part of it refers to"
    )
    path = written(tmp_path, "")
    path.write_bytes(b"data: \xff\n")
    with pytest.raises(UserError, match="config is not UTF-8 at byte 6"):
        load(path)


@pytest.mark.parametrize("text", [b"A house.\n", b"Note: a: b.\n", b"\xa4\xb3\n", b"a\n" * 2**21 + b"a"])
def test_a_text_in_place_of_a_config_is_answered_with_how_texts_are_named(tmp_path, text):
    """A file that is called a configuration, or is missing, is answered as such."""
    for name, named in (("train.en", True), ("config.yaml", False), ("config.yml", False)):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(UserError) as refused:
            load(tmp_path / name)
        assert ("--source train.en" in refused.value.line()) == named
        assert name in refused.value.line(), "and what is wrong, as before"
    with pytest.raises(UserError, match="check the path"):
        load(tmp_path / "absent.en")


@pytest.mark.parametrize(("without", "left"), [("encoder", (0, 1)), ("decoder", (1, 0)), ("both", (0, 0))])
def test_an_ablation_takes_a_side_of_the_system_away(tmp_path, without, left):
    path = tmp_path / "config.yaml"
    path.write_text(GOOD.replace("system: relative", f"system: relative\n  without: {without}"))
    config = load(path)
    sides = config.model.encoder, config.model.decoder
    assert tuple(len(side.position) for side in sides) == left
    # as a run folder keeps it, so that the run can be opened
    assert load(written(tmp_path, dump(config))) == config


def test_a_file_name_that_is_not_utf_8_survives(tmp_path):
    name = os.fsdecode("wörter.en".encode("latin-1"))
    config = load(written(tmp_path, GOOD), [f"data.train.source={json.dumps(name)}"])
    assert config.data.train.source == name
    assert load(written(tmp_path, dump(config))) == config


def test_overrides(tmp_path):
    config = load(written(tmp_path, GOOD), ["train.steps=7", "model.encoder.layers=3", "subword.shared=false"])
    assert (config.train.steps, config.model.encoder.layers, config.subword.shared) == (7, 3, False)
    assert faults(tmp_path, GOOD, "train.dropout=0.1") == [
        "unknown key train.dropout (config.yaml:6); did you mean 'model.dropout'?"
    ]
    [device] = faults(tmp_path, GOOD, "train.device=cuda")
    assert "did you mean" not in device
    assert "CUDA_VISIBLE_DEVICES" in device
    assert faults(tmp_path, GOOD, "train.stesp=7") == ["unknown key train.stesp (config.yaml:6); did you mean 'steps'?"]
    assert faults(tmp_path, GOOD, "steps")[0].startswith("a setting is written key.key=value; got 'steps'")
    assert faults(tmp_path, GOOD, "train.steps.more=1")[0].startswith("train.steps.more is not inside a section")


@pytest.mark.parametrize(
    ("written_as", "kept_as", "sides"),
    [
        ("moses", "moses", ("moses", "moses")),
        ("{source: moses, target: moses}", "moses", ("moses", "moses")),
        ("{target: jieba}", {"source": "none", "target": "jieba"}, ("none", "jieba")),
        ("{source: moses, target: jieba}", {"source": "moses", "target": "jieba"}, ("moses", "jieba")),
    ],
)
def test_tokenisers_of_the_sides(tmp_path, written_as, kept_as, sides):
    text = GOOD.replace("  train: {", f"  tokenise: {written_as}\n  target_language: zh_Hant\n  train: {{")
    config = load(written(tmp_path, text))
    assert config.data.tokenisers == sides
    assert config.data.model_dump(mode="json")["tokenise"] == kept_as
    assert load(written(tmp_path, dump(config))).data.tokenisers == sides


def test_segmentations_of_subwords_with_bytes_are_refused_before_they_are_learned(tmp_path):
    both = ["subword.sampling.segmentations=2", "subword.byte_fallback=true"]
    [fault] = faults(tmp_path, GOOD, *both)
    assert "set subword.byte_fallback: false" in fault
    taken = load(written(tmp_path, GOOD), [*both, "subword.text=runs/old/text"])  # whose own kind of subwords counts
    assert taken.subword.byte_fallback


def test_an_override_leaves_what_an_alias_shares(tmp_path):
    text = GOOD.replace("train: {", "train: &files {").replace("dev: {source: dev.en, target: dev.de}", "dev: *files")
    data = load(written(tmp_path, text), ["data.train.source=other.en"]).data
    assert (data.train.source, data.dev.source) == ("other.en", "train.en")


def test_environment_variables_in_paths(tmp_path, monkeypatch):
    text = GOOD.replace("data:\n", "data:\n  root: ${CORPORA}/de\n")
    monkeypatch.setenv("CORPORA", "/corpora")
    assert load(written(tmp_path, text)).data.root == "/corpora/de"
    monkeypatch.delenv("CORPORA")
    with pytest.raises(UserError, match=r"environment variable CORPORA is not set \(.*data.root\); set CORPORA"):
        load(tmp_path / "config.yaml")
    assert load(written(tmp_path, text.replace("${CORPORA}", "${CORPORA:-sub}"))).data.root == str(tmp_path / "sub/de")


def test_a_config_survives_being_written_and_read(tmp_path):
    config = load(written(tmp_path, GOOD))
    assert load(written(tmp_path, dump(config))) == config


def test_a_config_is_frozen(tmp_path):
    config = load(written(tmp_path, GOOD))
    with pytest.raises(ValueError, match="frozen"):
        config.train.steps = 3


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_config_loads(path, monkeypatch):
    monkeypatch.setenv("POSNMT_DATA", "/corpora")
    assert isinstance(load(path), Config)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_named_system_builds_and_describes_itself(name):
    description = describe(name, 104, "small")
    assert description["parameters"] > 1_000_000
    layers = SYSTEMS[name].model.get("encoder", {}).get("layers", 3)
    assert description["encoder"].startswith(f"{layers} layer{'' if layers == 1 else 's'}, ")
    assert SYSTEMS[name].summary in description.values()


def test_every_part_and_option_says_what_it_is():
    for part in parts():
        assert part["about"].endswith(".") or part["about"].endswith(")."), part
        assert all(option["about"] for option in part["options"].values()), part


def test_the_schema_describes_every_section():
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["properties"]) == {"format", "data", "subword", "model", "train", "decode"}
    assert schema["additionalProperties"] is False


def test_the_documented_example_is_a_config():
    """docs/config.md shows a whole config; it must load."""
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    assert isinstance(from_tree(yaml.safe_load(example)), Config)
