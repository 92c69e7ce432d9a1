"""Exported runs in Transformers: every system generates what posnmt's search finds."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from posnmt.config.schema import Decode
from posnmt.data.text import TextPipeline
from posnmt.deploy.card import card
from posnmt.deploy.folder import Manifest, describe
from posnmt.deploy.verify import verify
from posnmt.model.registry import build_model
from posnmt.run.run import Run
from posnmt.translate.subwords import score_subwords, translate_subwords
from tests.support import tiny
from tests.support.commands import refused, run
from tests.support.untrained import untrained

pytest.importorskip("transformers", reason="Transformers are not installed (extra huggingface)")

from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    MaxTimeCriteria,
    StoppingCriteriaList,
    pipeline,
)

import posnmt.deploy.huggingface as hf
from posnmt.deploy.huggingface.export import Loaded, write
from posnmt.deploy.huggingface.generation import StateCache
from tests.support.wrapped import drawn, padded, stripped, wrapped

FROZEN = Path(__file__).parents[1] / "frozen"
LEARNED = FROZEN / "learned"
CPU = torch.device("cpu")


@pytest.mark.parametrize("name", tiny.MODELS)
def test_every_system_generates_what_search_finds(name):
    """Greedily and with a beam, up to the limit of each sentence, where random weights mostly go."""
    model = tiny.build(**tiny.MODELS[name])
    sources = drawn()
    for beam, penalty in ((1, 1.0), (3, 0.7)):
        decode = Decode(beam=beam, length_penalty=penalty, max_ratio=1.0, max_extra=2)
        ours = translate_subwords([model], sources, decode, CPU)
        theirs = wrapped(model, decode).generate(**padded(sources))
        assert [stripped(row) for row in theirs] == [hypotheses[0].tokens for hypotheses in ours]


def test_the_cache_changes_nothing_and_a_given_length_wins():
    other = wrapped(tiny.build(system="rr"), Decode(beam=2, max_extra=4))
    with_cache, without = (other.generate(**padded(drawn()), use_cache=cache) for cache in (True, False))
    assert torch.equal(with_cache, without)
    assert other.generate(**padded(drawn()), max_new_tokens=3).shape[1] <= 4


def likely_ends():
    """A model whose outputs mostly end at once."""
    model = tiny.build(system="relative")
    with torch.no_grad():
        model.output.bias[3] += 10
    return model


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_as_long_as_the_run_wants(beam):
    """As far as the limits of their sentences allow it; a given length wins."""
    model, sources = likely_ends(), drawn((1, 0, 4, 6))
    decode = Decode(beam=beam, max_ratio=1.0, max_extra=2, min_length=5)
    ours = translate_subwords([model], sources, decode, CPU)
    other = wrapped(model, decode)
    theirs = [stripped(row) for row in other.generate(**padded(sources))]
    assert theirs == [hypotheses[0].tokens if hypotheses else [] for hypotheses in ours]
    assert [len(row) for row in theirs] == [3, 0, 5, 5]
    assert [stripped(row) for row in other.generate(**padded(sources), max_new_tokens=9)] == [[]] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"generation_config": GenerationConfig(num_beams=1)},
        {"stopping_criteria": StoppingCriteriaList([MaxTimeCriteria(600)])},
        {"max_length": None, "max_new_tokens": None},
    ],
    ids="+".join,
)
def test_without_a_length_outputs_have_the_limits_of_posnmt(options):
    other = wrapped(tiny.build(system="relative"), Decode(beam=1, max_extra=40))
    own = other.generate(**padded(drawn()))
    assert own.shape[1] > 40
    assert torch.equal(other.generate(**padded(drawn()), **options), own)


@pytest.mark.parametrize("name", ["max_length", "max_new_tokens"])
def test_a_configuration_can_have_a_length(name):
    other = wrapped(tiny.build(system="relative"), Decode(beam=1, max_extra=40))
    config = GenerationConfig(**{name: 30})
    assert other.generate(**padded(drawn()), generation_config=config).shape[1] == 30 + (name == "max_new_tokens")


def cached(other, target):
    """What a model returns for a target, and the cache in it, whatever its name."""
    first = other(**padded(drawn()), decoder_input_ids=target, use_cache=True)
    [cache] = [value for value in first.values() if isinstance(value, StateCache)]
    return first, cache


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_the_cache_goes_on_under_both_names(name):
    """Transformers 5.24 has another name than those before it."""
    other = wrapped(tiny.build(system="rr"), Decode())
    target = torch.tensor([[2, 5, 6, 7]] * 3)
    first, cache = cached(other, target[:, :2])
    assert cache.get_seq_length() == 2
    rest = other(decoder_input_ids=target[:, 2:], **{name: cache}).logits
    whole = other(**padded(drawn()), decoder_input_ids=target).logits
    torch.testing.assert_close(torch.cat([first.logits, rest], dim=1), whole)


def test_a_cache_that_is_lost_is_an_error():
    """Whether it comes under a name of the future, or does not come."""
    other = wrapped(tiny.build(system="rr"), Decode())
    _, cache = cached(other, torch.tensor([[2, 5]] * 3))
    step = {**padded(drawn()), "decoder_input_ids": torch.tensor([[6]] * 3)}
    with pytest.raises(TypeError, match="memory; use another version of Transformers"):
        other(**step, memory=cache)
    with pytest.raises(ValueError, match="begins with <s> or with a cache"):
        other(**step)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("options", [{}, {"max_new_tokens": 6}, {"do_sample": True}])
@pytest.mark.parametrize("lengths", [(4, 0, 2), (0, 0)])
def test_an_empty_source_has_an_empty_output(lengths, options, beam):
    torch.manual_seed(1)
    outputs = wrapped(tiny.build(system="relative"), Decode(beam=beam)).generate(**padded(drawn(lengths)), **options)
    assert [stripped(row) == [] for row in outputs] == [length == 0 for length in lengths]


def test_labels_give_posnmts_likelihood():
    model = tiny.build(system="relative")
    sources, targets = drawn(), drawn((2, 3, 7))
    rows = padded(targets)
    labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
    other = wrapped(model, Decode())
    loss = other(**padded(sources), labels=labels).loss
    loss.backward()
    assert [name for name, weight in other.named_parameters() if weight.grad is None] == []
    scores = score_subwords([model], sources, targets, 100, CPU)
    assert loss.item() == pytest.approx(-sum(scores) / int(rows["attention_mask"].sum()), abs=1e-6)


def test_padding_on_the_left_is_refused():
    rows = padded(drawn())
    with pytest.raises(ValueError, match="padding on the right"):
        wrapped(tiny.build(system="relative"), Decode()).generate(
            rows["input_ids"].flip(1), attention_mask=rows["attention_mask"].flip(1)
        )


@pytest.mark.parametrize(
    "name", ["transformer-xl", "alibi-asymmetric", "relative-sinusoidal", "t5-bias", "convs2s", "cross-relative"]
)
def test_what_is_saved_is_loaded_with_the_constants_of_the_scheme(name, tmp_path):
    model = tiny.build(**{**tiny.MODELS[name], "tie_embeddings": "all"})
    other = wrapped(model, Decode())
    other.float().save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(again) is hf.PosnmtForConditionalGeneration
    again = again.double()
    inputs = {**padded(drawn()), "decoder_input_ids": torch.tensor([[2, 5, 6]] * 3)}
    torch.testing.assert_close(again(**inputs).logits, other.double()(**inputs).logits)
    assert again.model.output.weight is again.model.source.table.weight


def test_an_export_has_the_ratio_of_lengths(tmp_path):
    text = TextPipeline.load(LEARNED / "text")
    part = tiny.settings(**tiny.MODELS["cross-relative"])
    model = build_model(part, text.source.size, text.target.size)
    model.learn_lengths(7, 4)
    write(model, text, Decode(), tmp_path)
    again = hf.PosnmtForConditionalGeneration.from_pretrained(tmp_path)
    assert again.model.cross.lengths.tolist() == [7, 4]


def test_weights_of_another_model_and_unknown_options_are_refused(tmp_path):
    wrapped(tiny.build(system="relative"), Decode()).float().save_pretrained(tmp_path)
    with pytest.raises(TypeError, match="load_in_8bit"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path, load_in_8bit=True)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    about["posnmt"]["encoder"]["position"] = [{"scheme": "learned"}]
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"the weights of another model: model\.source\.schemes\.0\.table is missing"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["bfloat16", torch.bfloat16])
def test_weights_have_the_dtype_that_is_asked_for(name, tmp_path):
    wrapped(tiny.build(system="relative"), Decode()).float().save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=name)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(("dtype", "error"), [("bf16", ValueError), ("nn", ValueError), (16, TypeError)])
def test_a_dtype_that_is_none_is_an_error(dtype, error, tmp_path):
    wrapped(tiny.build(system="relative"), Decode()).float().save_pretrained(tmp_path)
    with pytest.raises(error, match="dtype"):
        hf.PosnmtForConditionalGeneration.from_pretrained(tmp_path, dtype=dtype)
    model = hf.PosnmtForConditionalGeneration.from_pretrained(tmp_path, dtype="auto")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_the_check_at_the_export_keeps_to_a_short_table(tmp_path):
    model = tiny.build(system="learned", max_length=5)
    assert model.longest_target < 8
    wrapped(model, Decode()).float().save_pretrained(tmp_path)
    text = SimpleNamespace(source=SimpleNamespace(size=tiny.VOCABULARY), target=SimpleNamespace(size=tiny.VOCABULARY))
    figures = verify(model, text, (model.longest_source, model.longest_target), Loaded(tmp_path))
    assert figures["largest_difference"] < 1e-5


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The run for Transformers."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    out, err = run("export", LEARNED, "--format", "huggingface", "--out", folder)
    assert out == f"{folder}\n"
    assert "agrees with posnmt on 6 random pairs" in err
    assert json.loads((folder / "posnmt.json").read_text())["verified"]["largest_difference"] < 1e-5
    return folder


def test_settings_of_search_that_it_does_not_have_are_notes(tmp_path):
    folder = untrained(tmp_path / "run", "rope")
    path = folder / "config.yaml"
    decode = {"min_length": 4, "coverage_penalty": 0.2, "mbr": 3, "sampling": {}}
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "decode": decode}))
    _, err = run("export", folder, "--format", "huggingface", "--out", tmp_path / "model")
    assert "decode.coverage_penalty, decode.sampling, decode.mbr\n" in err
    assert json.loads((tmp_path / "model" / "config.json").read_text())["min_output"] == 4


def without_cache(forward):
    """`forward` as if Transformers did not hand over the cache."""

    @functools.wraps(forward)
    def forgetful(self, *, past_key_values=None, cache=None, **others):
        return forward(self, **others)

    return forgetful


@pytest.mark.parametrize(
    ("of", "name", "fault", "message"),
    [
        (hf.PosnmtForConditionalGeneration, "forward", without_cache, "cannot generate with posnmt's models: a target"),
        (StateCache, "reorder_cache", lambda _: lambda self, rows: None, "searches with other probabilities than posn"),
    ],
)
def test_an_export_whose_cache_does_not_work_is_refused(of, name, fault, message, tmp_path, monkeypatch):
    monkeypatch.setattr(of, name, fault(getattr(of, name)))
    [line] = refused("export", LEARNED, "--format", "huggingface", "--out", tmp_path / "model")
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_text_goes_in_and_comes_out_as_in_translate(exported, tmp_path):
    """With three searches; characters without a subword, names of symbols and empty lines are among the text.

    Protected spans are not for it: these are posnmt's.
    """
    lines = [*(FROZEN / "dev.source").read_text().splitlines(), "uns ✗✗ mebu", "<s> </s> <pad>", "Bevu  sipo\tun"]
    lines += ["", "   "]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    tokenizer, model = AutoTokenizer.from_pretrained(exported), AutoModelForSeq2SeqLM.from_pretrained(exported)
    assert type(tokenizer) is hf.PosnmtTokenizer
    inputs = tokenizer(lines, return_tensors="pt", padding=True)
    for options, settings in (([], {}), (["--beam", 1], {"num_beams": 1}), (["--beam", 5], {"num_beams": 5})):
        ours = run("translate", LEARNED, "--input", tmp_path / "text", "--protect", "off", *options)[0].splitlines()
        theirs = tokenizer.batch_decode(model.generate(**inputs, **settings), skip_special_tokens=True)
        assert theirs == ours


def test_its_pipeline_translates(exported):
    lines = ["uns mebu", "", "Bevu sipo un"]
    translate = pipeline("translation", model=str(exported), pipeline_class=hf.PosnmtTranslationPipeline)
    tokenizer, model = translate.tokenizer, translate.model
    outputs = model.generate(**tokenizer(lines, return_tensors="pt", padding=True))
    wanted = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    assert [each["translation_text"] for [each] in translate(lines)] == wanted
    assert [each["translation_text"] for [each] in translate(lines, batch_size=2)] == wanted
    two = translate("uns mebu", num_beams=3, num_return_sequences=2)
    assert two[0]["translation_text"] == wanted[0]
    assert len({each["translation_text"] for each in two}) == 2


@pytest.mark.parametrize("settings", [{"assistant_model": None}, {"prompt_lookup_num_tokens": 2}])
@pytest.mark.parametrize("configured", [False, True])
@pytest.mark.parametrize("beam", [1, 2])
def test_assisted_generation_is_refused(settings, configured, beam):
    """Also with a beam, where Transformers warns and goes on without it."""
    other = wrapped(tiny.build(system="rr"), Decode(beam=beam))
    [name] = settings
    settings = {name: settings[name] or other}
    if configured and name != "assistant_model":
        settings = {"generation_config": GenerationConfig(num_beams=beam, **settings)}
    with pytest.raises(ValueError, match=name):
        other.generate(**padded(drawn()), **settings)


def test_embeddings_in_place_of_tokens_are_refused():
    other = wrapped(tiny.build(system="relative"), Decode())
    rows = torch.zeros(1, 2, 16, dtype=torch.double)
    with pytest.raises(ValueError, match="inputs_embeds"):
        other(inputs_embeds=rows, decoder_input_ids=torch.tensor([[2]]))


def test_the_tokenizer_has_both_sides_and_saves_itself(exported, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(exported)
    both = tokenizer(["uns mebu"], text_target=["rushoshima kurikar"])
    assert both["input_ids"][0][-1] == both["labels"][0][-1] == tokenizer.eos_token_id == 3
    assert tokenizer.decode(both["labels"][0], skip_special_tokens=True) == "rushoshima kurikar"
    assert tokenizer.decode([2, *both["labels"][0]]) == "<s> rushoshima kurikar </s>"
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(["uns mebu"]) == tokenizer(["uns mebu"])


def test_the_card_says_what_it_is(exported):
    card = (exported / "README.md").read_text()
    assert "| system | relative (architecture transformer) |" in card
    assert r"| BLEU on dev (dev.source, dev.target), greedy | 90.91 (nrefs:1\|case:mixed" in card
    assert "| trained lengths, source | 5 to 24 subwords |" in card
    assert "| output | at most 3 x source + 5 subwords |" in card
    about = json.loads((exported / "posnmt.json").read_text())
    assert {"README.md", "model.safetensors", "source.model"} <= about["files"].keys()


def test_languages_are_words_in_the_card():
    """In YAML no is false."""
    source = Run.open(LEARNED)
    manifest = Manifest(kind="huggingface", limits={}, **describe(source, "model"))
    manifest.languages.update(source="no", target="de")
    [_, head, _] = card(source, manifest).split("---\n", 2)
    assert yaml.safe_load(head)["language"] == ["no", "de"]


def test_int8_and_translate_are_not_for_it(exported, tmp_path):
    [line] = refused("export", LEARNED, "--format", "huggingface", "--out", tmp_path / "x", "--precision", "int8")
    assert "fp32 only (--precision)" in line
    [line] = refused("translate", exported, "--input", FROZEN / "dev.source")
    assert "exported for huggingface, not for ctranslate2" in line


def test_without_transformers_the_way_to_them_is_named(tmp_path, monkeypatch):
    import sys

    for name in [each for each in sys.modules if each.startswith("posnmt.deploy.huggingface")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    [line] = refused("export", LEARNED, "--format", "huggingface", "--out", tmp_path / "model")
    assert 'pip install "posnmt[huggingface]"' in line
    assert list(tmp_path.iterdir()) == []
