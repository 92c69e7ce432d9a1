"""Settings that are chosen: by the corpus, by the budget, and never in place of one that is set."""

from __future__ import annotations

from typing import Any

import pytest

from posnmt.config.marks import Chosen, MayChange, OfWeights, marked
from posnmt.config.schema import Config, Model, Train
from posnmt.config.writing import Writing
from posnmt.data.survey import Survey
from posnmt.run import defaults
from posnmt.run.resolve import from_tree

SPACED = Writing(None, True)
FILES = {"source": "a.en", "target": "a.de"}
LENGTH = 16.0
"""Tokens of a pair."""


def corpus(pairs: int, characters: int, alphabet: int = 80, target: Writing = SPACED) -> Survey:
    return Survey(pairs, characters, alphabet, SPACED, target)


def text(survey: Survey, tree: dict[str, Any] | None = None) -> dict[str, Any]:
    return defaults.for_text(tree or {}, survey, ("en", None))


def config(train: dict[str, Any], **model: Any) -> Any:
    return from_tree({"data": {"train": FILES}, "model": {"size": "small", **model}, "train": {"epochs": 1, **train}})


@pytest.mark.parametrize(
    ("pairs", "characters", "vocabulary", "held_out"),
    [(9000, 540_000, 4000, 450), (29_000, 1_800_000, 8000, 1000), (50_000, 2_000_000, 8000, 1000),
     (1_000_000, 100_000_000, 32_000, 1000), (10, 1000, 160, 1), (300, 9000, 900, 15)],
)  # fmt: skip
def test_a_vocabulary_and_dev_pairs_by_the_size_of_the_text(pairs, characters, vocabulary, held_out):
    chosen = text(corpus(pairs, characters))
    assert (chosen["subword.vocabulary"], chosen["data.held_out"]) == (vocabulary, held_out)
    assert chosen["subword.character_coverage"] == 1.0
    in_an_hour = defaults.for_text({}, corpus(pairs, characters), ("en", None), 60.0)
    assert in_an_hour["data.held_out"] == min(500, held_out)


def test_a_large_alphabet_has_a_vocabulary_of_twice_its_size_and_loses_its_rarest():
    chosen = text(corpus(20_000, 1_000_000, 4000, Writing("chinese", False)))
    assert (chosen["subword.vocabulary"], chosen["subword.character_coverage"]) == (8000 + 256, 0.9995)
    assert chosen["subword.byte_fallback"] is True
    assert (chosen["train.bleu_tokenizer"], chosen["data.target_language"]) == ("zh", "zh")


def test_names_of_files_tell_languages_before_scripts_do():
    assert text(corpus(9, 9))["data.source_language"] == "en"
    assert "data.target_language" not in text(corpus(9, 9))


def test_what_is_set_is_kept():
    tree = {
        "data": {"dev": FILES, "source_language": "is"}, "subword": {"vocabulary": 500},
        "train": {"learning_rate": 1.0, "schedule": {"warmup": 7}, "average": 2},
        "model": {"d_model": 64, "encoder": {"position": []}, "dropout": 0.5},
    }  # fmt: skip
    chosen = text(corpus(9000, 540_000), tree)
    assert not {"data.held_out", "data.source_language", "subword.vocabulary"} & set(chosen)
    assert defaults.for_model(tree, Model(), False, 9000) == {}
    assert "train.learning_rate" not in defaults.for_updates(tree, config({}), 9000, LENGTH)
    assert not {"train.schedule.warmup", "train.average"} & set(defaults.for_budget(tree, config({}).train, 5000, 12))
    assert "subword.vocabulary" not in text(corpus(9, 9), {"subword": {"text": "runs/a/text"}})


def test_the_settings_that_rules_choose_are_those_that_are_marked_so():
    plain = config({})
    rules = [
        text(corpus(9000, 540_000, target=Writing("thai", False)), {"data": {}}),
        defaults.for_model({}, Model(), True, 9000),
        defaults.for_embeddings({}, config({}, tie_embeddings="all").model),
        defaults.for_updates({}, plain, 9000, LENGTH),
        defaults.for_budget({}, plain.train, 2000, 12),
        defaults.for_dev({}, 200, False),
    ]
    assert {key for settings in rules for key in settings} == {*marked(Config, Chosen)}


def test_a_mark_is_found_in_sections_of_sections():
    assert {"encoder.layers", "decoder.layers", "d_model"} <= {*marked(Model, OfWeights)}
    assert {"steps", "loggers"} <= {*marked(Train, MayChange)}
    assert not {"seed", "batch", "schedule.warmup"} & {*marked(Train, MayChange)}


def test_a_null_that_names_nothing_is_as_if_left_out():
    updates = [
        {
            **defaults.for_updates(tree, config({}), 9000, LENGTH),
            **defaults.for_budget(tree, config({}).train, 2000, 12),
        }
        for tree in ({}, {"train": {"init": None}})
    ]
    assert updates[0] == updates[1]
    chosen = defaults.for_model({"model": {"system": None, "size": None}}, Model(system=None, size=None), False, 9000)
    assert (chosen["model.system"], chosen["model.size"]) == ("relative", "small")
    assert all(defaults.is_set({"data": {key: None}}, f"data.{key}") for key in ("max_length", "held_out", "dev"))


def test_what_a_named_size_or_system_sets_is_kept():
    big = from_tree({"data": {"train": FILES}, "model": {"size": "big"}, "train": {"epochs": 1}}).model
    assert big.dropout == 0.3
    chosen = defaults.for_model({"model": {"size": "big"}}, big, True, 2_000_000)
    assert chosen == {"model.system": "relative", "model.tie_embeddings": "all"}
    of_a_system = Model(tie_embeddings="all", embedding_init="normal")
    assert "model.tie_embeddings" not in defaults.for_model({}, of_a_system, True, 9000)
    assert defaults.for_embeddings({}, of_a_system) == {}


def test_one_key_of_a_size_does_not_change_the_others():
    for key in ({"decoder": {"layers": 2}}, {"heads": 8}, {"feed_forward": 512}):
        assert defaults.for_model({"model": key}, Model(), False, 9000)["model.size"] == "small"
    assert "model.size" not in defaults.for_model({"model": {"d_model": 128}}, Model(), False, 9000)


def test_auto_is_as_if_left_out_where_a_choice_is_made():
    languages = {"source_language": "auto", "target_language": "auto"}
    assert defaults.without_autos({"data": languages}) == {"data": {}}
    trained = {"muon_every": "auto", "log_every": "auto"}
    assert defaults.without_autos({"model": {"embedding_init": "auto"}, "train": trained}) == {"model": {}, "train": {}}
    written = {
        "train": {"batch": "auto", "precision": "auto", "schedule": {"warmup": "auto", "type": "cosine"}},
        "model": {"encoder": {"position": [{"scheme": "relative", "distance": "auto"}]}},
    }
    assert defaults.without_autos(written) == {
        "train": {"precision": "auto", "schedule": {"type": "cosine"}},
        "model": {"encoder": {"position": [{"scheme": "relative"}]}},
    }


@pytest.mark.parametrize("place", ["encoder.position", "decoder.position", "decoder.cross"])
def test_an_auto_distance_is_chosen_in_each_list_of_schemes(place):
    side, key = place.split(".")
    written = [{"scheme": "relative", "distance": "auto", "values": False}, {"scheme": "t5-bias", "distance": 90}]
    left = defaults.without_autos({"model": {side: {key: written, "layers": 1}}})
    assert left == {"model": {side: {key: [{"scheme": "relative", "values": False}, written[1]], "layers": 1}}}
    chosen = defaults.for_distances(config({}, **left["model"]).model, 24.0)
    assert chosen == {f"model.{place}": [{**written[0], "distance": 6}, written[1]]}


def test_an_empty_section_is_left_out_and_what_cannot_be_a_section_stays():
    assert defaults.without_autos({"model": None, "train": {"schedule": None, "clip": None}}) == {
        "train": {"clip": None}
    }
    chosen = {"train.batch": 1024, "train.schedule.warmup": 9, "model.dropout": 0.3}
    assert defaults.with_settings({"model": "big", "train": {"schedule": None}}, chosen) == {
        "model": "big", "train": {"schedule": None, "batch": 1024},
    }  # fmt: skip


def test_size_and_regularisation_by_the_number_of_pairs():
    small = {"model.dropout": 0.3, "model.system": "relative", "model.size": "small", "model.tie_embeddings": "all"}
    assert defaults.for_model({}, Model(), True, 9000) == small
    assert defaults.for_model({}, Model(), False, 50_000)["model.dropout"] == 0.2
    assert defaults.for_model({}, Model(), False, 2_000_000)["model.size"] == "base"


def test_small_embeddings_where_they_are_the_output_projection_of_a_transformer():
    chosen = {"model.embedding_init": "small-normal"}
    assert defaults.for_embeddings({}, config({}, tie_embeddings="all").model) == chosen
    assert defaults.for_embeddings({}, config({}, tie_embeddings="target").model) == {}
    assert defaults.for_embeddings({}, config({}, system="convs2s", tie_embeddings="all").model) == {}
    assert (
        defaults.for_embeddings({"model": {"embedding_init": "normal"}}, config({}, tie_embeddings="all").model) == {}
    )


def test_a_clipping_distance_is_a_quarter_of_the_median_where_none_is_set():
    model = from_tree({"data": {"train": FILES}, "model": {"system": "relative"}, "train": {"epochs": 1}}).model
    chosen = defaults.for_distances(model, 21.0)
    position = [{"scheme": "relative", "distance": 5}]
    assert chosen == {"model.encoder.position": position, "model.decoder.position": position}
    for median, distance in ((3.0, 2), (500.0, 16)):
        [choice] = defaults.for_distances(model, median)["model.encoder.position"]
        assert choice["distance"] == distance
    own = model.model_copy(update={"encoder": model.decoder, "decoder": type(model.decoder)()})
    assert set(defaults.for_distances(own, 9.0)) == {"model.encoder.position"}
    wide = defaults.with_settings({"model": {"system": "relative"}}, defaults.for_distances(model, 40.0))
    resolved = from_tree({"data": {"train": FILES}, "train": {"epochs": 1}, **wide}).model
    assert (defaults.too_wide(resolved, 40.0), defaults.too_wide(resolved, 15.0)) == (None, 10)


def test_small_batches_and_muon_with_a_peak_that_falls_with_the_width():
    chosen = defaults.for_updates({}, config({}), 50_000, LENGTH)
    muon = {"train.optimizer": "muon", "train.muon_every": 4}
    assert chosen == {"train.batch": 1024, **muon, "train.learning_rate": 2e-3}
    wide = config({}, d_model=1024, heads=4)
    assert defaults.for_updates({}, wide, 5_000_000, LENGTH) == {
        "train.batch": 4096,
        **muon,
        "train.learning_rate": 1e-3,
    }
    adam = {"train": {"optimizer": "adam"}}
    assert defaults.for_updates(adam, config({"optimizer": "adam"}), 9000, LENGTH) == {
        "train.batch": 1024, "train.learning_rate": 1e-3,
    }  # fmt: skip
    noam = config({"schedule": {"type": "noam"}, "batch_unit": "sentences", "shard": True})
    assert defaults.for_updates({}, noam, 9000, LENGTH) == {
        "train.batch": 64, "train.optimizer": "adam", "train.learning_rate": 1.0,
    }  # fmt: skip


def test_a_batch_of_sentences_has_as_many_tokens_on_average_but_some_sentences():
    sentences = config({"batch_unit": "sentences"})
    batches = [
        defaults.for_updates({}, sentences, 50_000, length)["train.batch"] for length in (LENGTH, 25.0, 40.5, 200.0)
    ]
    assert batches == [64, 41, 25, defaults.FEWEST_SENTENCES]


def test_noam_has_the_factor_of_its_paper():
    """The width is in Noam's formula, and Muon has a factor of its own."""
    for optimizer in ("adam", "muon"):
        noam = config({"schedule": {"type": "noam"}, "optimizer": optimizer}, d_model=1024, heads=4)
        assert defaults.for_updates({}, noam, 9000, LENGTH)["train.learning_rate"] == 1.0
    continued = {"train": {"init": "runs/mine"}}
    assert defaults.for_updates(continued, noam, 9000, LENGTH)["train.learning_rate"] == defaults.CONTINUED


@pytest.mark.parametrize(
    ("updates", "warmup", "cooldown"), [(520, 104, 0.3), (1000, 200, 0.6), (5000, 300, 0.6), (100_000, 4000, 0.6)]
)
def test_a_schedule_by_the_number_of_updates(updates, warmup, cooldown):
    chosen = defaults.for_budget({}, config({}).train, updates, 12)
    assert (chosen["train.schedule.warmup"], chosen["train.schedule.cooldown"]) == (warmup, cooldown)
    assert chosen["train.evaluate_every"] == -(-updates // 12)
    assert "train.schedule.cooldown" not in defaults.for_budget(
        {}, config({"schedule": {"type": "cosine"}}).train, updates, 12
    )


@pytest.mark.parametrize(("updates", "warmup"), [(10, 0), (520, 26), (5000, 250), (100_000, 4000)])
def test_a_training_that_continues_has_a_lower_peak_and_a_shorter_warm_up(updates, warmup):
    tree = {"train": {"init": "runs/mine"}}
    assert defaults.for_budget(tree, config({}).train, updates, 12)["train.schedule.warmup"] == warmup
    new = defaults.for_updates({}, config({}), 9000, LENGTH)["train.learning_rate"]
    assert defaults.for_updates(tree, config({}), 9000, LENGTH)["train.learning_rate"] == defaults.CONTINUED * new < new


def test_few_minutes_have_few_evaluations():
    assert [defaults.evaluations(minutes) for minutes in (None, 0.1, 1.5, 6, 600)] == [12, 1, 3, 12, 12]
    chosen = defaults.for_budget({}, config({"minutes": 1.5}).train, 300, 3)
    assert (chosen["train.evaluate_every"], chosen["train.average"]) == (100, 1)


def test_a_budget_in_minutes_has_no_number_of_updates():
    """Its schedule and its evaluations follow the clock, so they are none of the chosen settings."""
    assert defaults.for_minutes({}, 9, 2700) == {
        "train.evaluate_every": None, "train.log_every": 50, "train.average": 3,
    }  # fmt: skip
    assert defaults.for_minutes({}, 3, 30) == {"train.evaluate_every": None, "train.log_every": 10, "train.average": 1}
    written = {"train": {"evaluate_every": 100, "log_every": 7, "average": 2, "dev_pairs": 5, "dev_bleu": True}}
    assert defaults.for_minutes(written, 12) == defaults.for_dev(written, 200, False) == {}


def test_a_cool_down_grows_with_the_updates_without_a_step():
    assert [defaults.cooldown(updates) for updates in (1, 600, 800, 1000, 90_000)] == pytest.approx(
        [0.3, 0.3, 0.45, 0.6, 0.6]
    )
    steps = [defaults.cooldown(updates + 1) - defaults.cooldown(updates) for updates in range(0, 3000)]
    assert 0 <= min(steps) <= max(steps) < 0.001


def test_passes_fall_with_the_size_of_the_corpus():
    assert [defaults.passes(pairs) for pairs in (100, 9000, 50_000, 200_000, 10**8)] == [40, 35, 15, 8, 3]
