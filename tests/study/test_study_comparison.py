"""A comparison is planned: texts, cap, updates and recipe; and what is refused."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import yaml

from posnmt.base.errors import UserError
from posnmt.corpora.artificial.pairs import generate
from posnmt.data.prepare import prepare
from posnmt.run.defaults import passes
from posnmt.run.resolve import from_tree
from posnmt.study import comparison, hours
from posnmt.study.compared_texts import FEWEST_LONGER, KEPT, usual_cap
from posnmt.study.comparison import FEWEST_UPDATES, PLAN, RECIPE, SCALE, TEXT, Request, planned
from posnmt.study.held_out import read
from posnmt.study.load import load, shipped
from posnmt.study.plan import plan
from posnmt.study.trainings import train_config

TINY = ("model.size=tiny", "subword.vocabulary=300", "decode.beam=1", "train.batch=256")
PACE = hours.Pace(update=1.0, evaluating=5.0, testing=20.0, line=0.005)


def unheard(message):
    pass


@pytest.fixture(autouse=True)
def timed(monkeypatch):
    """A second an update, in place of what this machine does now."""
    monkeypatch.setattr(hours.Pace, "measured", lambda config, amounts: PACE)
    monkeypatch.setattr(hours, "workers", lambda: 2)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A request to compare two systems on 2,000 pairs of the artificial language pair."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate(2000, 3, 16, 1))
    for name, side in (("en", "source"), ("de", "target")):
        (folder / f"c.{name}").write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs), encoding="utf-8")
    return Request(folder / "c.en", folder / "c.de", ["transformer", "relative"], seeds=2, cap=16, settings=TINY)


@pytest.fixture(scope="module")
def made(asked, tmp_path_factory):
    """The plan, its folder and its recipe."""
    out = tmp_path_factory.mktemp("made") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hours.Pace, "measured", lambda config, amounts: PACE)
        patch.setattr(hours, "workers", lambda: 2)
        return planned(asked, out, unheard)["plan"], out, load(str(out / RECIPE))


def texts_of(out):
    text = out / TEXT
    ids = {"test": text / "test.documents"}
    return {name: read(text / f"{name}.en", text / f"{name}.de", ids.get(name)) for name in ("train", "dev", "test")}


def test_the_texts_are_parts_of_the_corpus_without_overlap(made, asked):
    found, out, _ = made
    texts = texts_of(out)
    corpus = {(pair.source, pair.target) for pair in read(asked.source, asked.target)}
    lines = {name: {(pair.source, pair.target) for pair in pairs} for name, pairs in texts.items()}
    assert all(each <= corpus for each in lines.values())
    assert len(lines["train"] | lines["dev"] | lines["test"]) == sum(map(len, lines.values()))
    assert not {pair.source for pair in texts["train"]} & {pair.source for pair in texts["test"]}
    assert [len(texts[name]) for name in ("train", "dev", "test")] == [
        found["trained"], found["developed"], found["seen"] + found["longer"]
    ]  # fmt: skip
    assert len({pair.document for pair in texts["test"]}) == found["documents"]


def store_of(out, recipe, folder):
    """The store that the study prepares."""
    config = train_config(recipe, SCALE, "transformer", "all", 1)
    files = {
        name: {side: str(out / TEXT / f"{name}.{code}") for side, code in (("source", "en"), ("target", "de"))}
        for name in ("train", "dev")
    }
    return prepare(from_tree({**config, "data": {**config["data"], **files}}), folder)


def test_lengths_are_those_of_the_study_itself(made, tmp_path):
    """The study learns its subwords anew, from the same text."""
    found, out, recipe = made
    store = store_of(out, recipe, tmp_path)
    train, test = store.split("train"), texts_of(out)["test"]
    lengths = [len(row) for row in store.text.source.encode([pair.source for pair in test])]
    assert len(train) == found["kept"] < found["trained"]
    assert max(train.source_lengths.max(), train.target_lengths.max()) <= found["cap"] == 16
    assert train.source_lengths.max() == found["longest"]
    assert sum(length > found["longest"] for length in lengths) == found["longer"] >= FEWEST_LONGER
    assert max(lengths) == found["longest_tested"]
    assert recipe.analyses["test"].bins == [found["longest"] + 1]
    edges = [0, *recipe.analyses["curve"].bins, max(lengths) + 1]
    assert (len(edges), edges.count(found["longest"] + 1)) == (6, 1)
    counts = [sum(low <= length < high for length in lengths) for low, high in pairwise(edges)]
    assert min(counts[:2]) > 0.3 * found["seen"]
    assert min(counts[2:]) > 0.2 * found["longer"]
    dev = store.split("dev")
    assert max(dev.source_lengths.max(), dev.target_lengths.max()) <= found["cap"]


def test_a_test_with_too_few_longer_sentences_is_made_larger(asked, tmp_path):
    """A tenth of the corpus is tested, or twice as many where that has too few."""
    tested = {}
    for cap in (12, 16):
        heard = []
        found = planned(replace(asked, cap=cap), tmp_path / str(cap), heard.append)["plan"]
        tested[cap] = found["seen"] + found["longer"], sum(line.startswith("learning") for line in heard)
        assert found["longer"] >= FEWEST_LONGER
    assert tested == {12: (200, 1), 16: (400, 2)}


def test_the_cap_keeps_three_quarters_of_the_lines_of_one_sentence(asked, made, tmp_path):
    """Lines of two sentences, which are longer, do not count."""
    _, out, recipe = made
    text = store_of(out, recipe, tmp_path).text
    single = read(asked.source, asked.target)
    lengths = sorted(
        max(len(text.source.encode([pair.source])[0]), len(text.target.encode([pair.target])[0])) for pair in single
    )
    cap = usual_cap(single, text, "en")
    assert sum(length <= cap - 1 for length in lengths) < KEPT * len(single) <= sum(length <= cap for length in lengths)
    two = [
        pair._replace(source=f"{pair.source}. The {pair.source}.", target=f"{pair.target} {pair.target}")
        for pair in single
    ]
    mixed = [each for both in zip(single, two, strict=True) for each in both]
    assert usual_cap(mixed, text, "en") == cap
    with pytest.raises(UserError, match="no line of the corpus is one sentence"):
        usual_cap(two, text, "en")


def test_the_recipe_is_like_choose_with_other_systems(made):
    _, out, recipe = made
    tree = yaml.safe_load((out / RECIPE).read_text(encoding="utf-8"))
    choose = load("choose")
    assert [*recipe.systems] == ["transformer", "relative"]
    assert all(recipe.systems[name] == choose.systems[name] for name in recipe.systems)
    assert (recipe.recommend, recipe.figures) == (choose.recommend, choose.figures)
    assert not {"tables", "runs", "figures", "recommend", "tests"} & tree.keys()
    assert {*plan(recipe, SCALE, out / TEXT).trainings} == {
        f"train/{system}/all/seed-{seed}" for system in recipe.systems for seed in (1, 2)
    }


def test_the_systems_of_choose_are_the_preset(asked, tmp_path):
    planned(replace(asked, systems=None, seeds=1), tmp_path / "out", unheard)
    tree = yaml.safe_load((tmp_path / "out" / RECIPE).read_text(encoding="utf-8"))
    assert "systems" not in tree
    assert load(str(tmp_path / "out" / RECIPE)).systems == load("choose").systems


def test_a_system_that_choose_lacks_has_its_clipping_distance_chosen(asked, tmp_path):
    planned(replace(asked, systems=["relative-key", "alibi"]), tmp_path / "out", unheard)
    recipe = load(str(tmp_path / "out" / RECIPE))
    model = train_config(recipe, SCALE, "relative-key", "all", 1)["model"]
    assert [each["distance"] for side in ("encoder", "decoder") for each in model[side]["position"]] == ["auto"] * 2
    assert recipe.systems["alibi"].options == {}


def test_updates_are_passes_or_what_fits_into_the_hours(made, asked, tmp_path):
    found, _, recipe = made
    assert found["passes"] == pytest.approx(passes(found["kept"]), rel=0.01)  # without hours
    few = planned(replace(asked, hours=0.55), tmp_path / "few", unheard)["plan"]
    spent = hours.estimate([PACE] * 2, 2, few["updates"], 2)
    assert FEWEST_UPDATES <= few["updates"] < found["updates"]
    assert hours.total(spent) <= 0.55 * hours.SHARE < hours.total(hours.estimate([PACE] * 2, 2, few["updates"] + 1, 2))
    many = planned(replace(asked, hours=100), tmp_path / "many", unheard)["plan"]
    assert many["updates"] == found["updates"]  # no more than the corpus asks for
    config = recipe.scales[SCALE].config["train"]
    assert (config["steps"], config["evaluate_every"]) == (found["updates"], math.ceil(found["updates"] / 12))


def test_a_plan_is_kept_for_the_same_request_and_replaced_before_trainings(asked, tmp_path):
    out = tmp_path / "out"
    first = planned(asked, out, unheard)
    before = (out / RECIPE).stat().st_mtime_ns
    heard = []
    assert planned(asked, out, heard.append) == first == json.loads((out / PLAN).read_text())
    assert len(heard) == 1  # that it goes on
    assert (out / RECIPE).stat().st_mtime_ns == before
    other = planned(replace(asked, seeds=1), out, unheard)
    assert other["plan"]["seeds"] == 1
    assert load(str(out / RECIPE)).scales[SCALE].seeds == 1
    (out / "steps").mkdir()
    with pytest.raises(UserError, match="has begun with other values of --seeds"):
        planned(asked, out, unheard)
    assert planned(replace(asked, seeds=1), out, unheard) == other


def test_a_test_and_a_dev_text_of_ones_own(made, asked, tmp_path):
    """The test is the corpus' own lines, of which those in training are left out."""
    found, out, _ = made
    own = tuple(out / TEXT / f"test.{code}" for code in ("en", "de"))
    more = tuple(tmp_path / f"own.{code}" for code in ("en", "de"))
    for mine, its, corpus in zip(more, own, (asked.source, asked.target), strict=True):
        lines = its.read_text().splitlines() + corpus.read_text().splitlines()[:50]
        mine.write_text("".join(f"{line}\n" for line in lines))
    corpus = tuple(tmp_path / f"c.{code}" for code in ("en", "de"))
    for path, code in zip(corpus, ("en", "de"), strict=True):
        path.write_bytes((out / TEXT / f"train.{code}").read_bytes())
    mine = replace(asked, source=corpus[0], target=corpus[1], test=more, dev=own)
    other = planned(mine, tmp_path / "out", unheard)["plan"]
    assert other["trained"] == other["pairs"] == found["trained"]
    there = {pair.source for pair in read(*corpus)}
    assert other["repeated"] == sum(pair.source in there for pair in read(*more)) > 0
    assert other["seen"] + other["longer"] + other["repeated"] == found["seen"] + found["longer"] + 50


def test_a_plan_says_what_it_could_find(made, asked, tmp_path):
    """With one seed nothing, so what three could; more seeds find less, and longer sentences, of which there are fewer,
    show only more."""
    found, *_ = made
    one = planned(replace(asked, seeds=1), tmp_path / "one", unheard)["plan"]
    many = planned(replace(asked, seeds=5), tmp_path / "many", unheard)["plan"]
    assert [each["found_by"] for each in (one, found, many)] == [3, 2, 5]
    assert {*found["finds"]} == {"test, seen", "test, longer", "test, D1"}
    for place in found["finds"]:
        assert 0 < many["finds"][place] < one["finds"][place] < found["finds"][place]
    assert all(each["finds"]["test, longer"] > each["finds"]["test, seen"] for each in (one, found, many))


def test_a_plan_says_what_trainings_on_such_a_corpus_have_reached(made, tmp_path):
    """Of the small model on a corpus near one of ours; of other models it is not known."""
    found, _, recipe = made
    assert found["expects"].startswith("unknown")
    assert found["floor"] == recipe.scales[SCALE].floor == 10
    for name, side in (("en", "source"), ("de", "target")):
        lines = (f"{getattr(pair, side)}\n" for pair in generate(9500, 6, 28, 1))
        (tmp_path / f"c.{name}").write_text("".join(lines), encoding="utf-8")
    settings = ("subword.vocabulary=1000", "train.steps=400")
    near = Request(tmp_path / "c.en", tmp_path / "c.de", ["transformer", "relative"], settings=settings)
    assert "17.9 BLEU after 400 updates" in planned(near, tmp_path / "out", unheard)["plan"]["expects"]


REFUSALS = {
    "an unknown system": ({"systems": ["transformer", "ropee"]}, "ropee", "--systems", "rope"),
    "one system": ({"systems": ["rope"]}, "compared with nothing", "--systems", "two or more"),
    "a system twice": ({"systems": ["rope", "lstm", "rope"]}, "rope is named twice", "--systems", ""),
    "a setting of another option": ({"settings": ["data.max_length=9"]}, "data.max_length", "--set", "--cap"),
    "an unknown setting": ({"settings": ["train.stepps=9"]}, "stepps", "", "steps"),
    "no long sentences": ({"cap": 60}, f"needs {FEWEST_LONGER}, and the test has 0", "--cap", "--test"),
    "a cap that no pair has": ({"cap": 1}, "no pair has at most 1 subwords", "--cap", "higher"),
    "hours too few": ({"hours": 0.2}, f"too few for {FEWEST_UPDATES} updates of each of 4", "--hours", "hours"),
    "steps that take longer": (
        {"hours": 0.2, "settings": [*TINY, "train.steps=5000"]}, "too few for 5,000 updates", "--hours", "seeds"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_compared_is_refused_with_what_to_do(name, asked, tmp_path):
    change, what, where, todo = REFUSALS[name]
    with pytest.raises(UserError) as refusal:
        planned(replace(asked, **change), tmp_path / "out", unheard)
    [line] = refusal.value.lines
    assert what in line
    assert where in line
    assert todo in line
    assert not (tmp_path / "out").exists()


def test_the_hours_that_a_refusal_names_are_enough(asked, tmp_path):
    with pytest.raises(UserError) as refusal:
        planned(replace(asked, hours=0.2), tmp_path / "out", unheard)
    needed = float(str(refusal.value.todo).split()[2])
    found = planned(replace(asked, hours=needed), tmp_path / "out", unheard)["plan"]
    assert FEWEST_UPDATES <= found["updates"] < 1.2 * FEWEST_UPDATES


def test_texts_that_are_missing_unequal_or_too_small_are_refused(asked, tmp_path):
    for name, lines in (("a.en", 30), ("a.de", 29), ("b.de", 30)):
        (tmp_path / name).write_text("".join(f"Line {number} is here.\n" for number in range(lines)))
    small = replace(asked, source=tmp_path / "a.en", cap=None, settings=())
    for target, what in (
        ("no.de", "no file"),
        ("a.de", "different line counts"),
        ("b.de", "0 of 30 pairs would be left"),
    ):
        with pytest.raises(UserError, match=what) as refusal:
            planned(replace(small, target=tmp_path / target), tmp_path / "out", unheard)
        assert len(refusal.value.lines) == 1
    (tmp_path / "c.x").write_bytes(asked.target.read_bytes())
    with pytest.raises(UserError, match="the language of the target is not known"):
        planned(replace(asked, target=tmp_path / "c.x"), tmp_path / "out", unheard)


def test_the_folder_of_something_else_is_refused(asked, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a study's"):
        planned(asked, tmp_path, unheard)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_settings_are_those_of_the_rules_of_training(made):
    """`posnmt train` has the same on such a text: see `posnmt.run.defaults`."""
    _, _, recipe = made
    config = recipe.scales[SCALE].config
    assert (
        config["train"].items() >= {"batch": 256, "optimizer": "muon", "muon_every": 4, "learning_rate": 0.002}.items()
    )
    assert config["model"] == {
        "size": "tiny", "dropout": 0.3, "tie_embeddings": "all", "embedding_init": "small-normal"
    }  # fmt: skip
    assert config["decode"] == {"beam": 1}
    assert comparison.LIKE in shipped()
