"""`posnmt score --by-position`: from trained runs to losses by position."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.data.exposure import exposure, percentile
from posnmt.evaluation.analyse.designs import AFTER_BOUNDARY
from posnmt.evaluation.analyse.length_claims import SCOPE
from posnmt.evaluation.analyse.likelihood import Design, EncodedTest, document_numbers, expect
from posnmt.evaluation.analyse.losses import Scored, read_losses
from posnmt.evaluation.analyse.scoring import MOST, SHORT, swap_designs
from posnmt.evaluation.analyse.zones import longest_reached
from posnmt.evaluation.report.likelihood import likelihood_report
from posnmt.run.run import Run
from posnmt.translate.subwords import force_subwords
from posnmt.translate.together import joined
from tests.support import corpus
from tests.support.commands import refused, run

CPU = torch.device("cpu")
STACK = {"layers": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus, its test with documents, and runs of one vocabulary and of another one."""
    folder = tmp_path_factory.mktemp("likelihood")
    path = corpus.make(folder, pairs=120, train={"steps": 2, "evaluate_every": 2, "average": 1, "dev_bleu": False})
    (folder / "train.ids").write_text("".join(f"d{line // 10}\n" for line in range(120)))
    changes = {
        "relative-1": [],
        "relative-2": ["train.seed=2"],
        "transformer-1": ["model.system=transformer"],
        "learned-1": ["model.system=learned", "model.max_length=31"],
        "rnn-1": ["model.system=rnnsearch+distortion"],
        "other-1": ["model.system=transformer", "subword.vocabulary=120"],
        "context-1": ["train.context=2", f"data.train.documents={folder / 'train.ids'}"],
    }
    for name, overrides in changes.items():
        run("train", path, "--out", folder / name, *(part for each in overrides for part in ("--set", each)))
    (folder / "test.ids").write_text("".join(f"d{line // 7}\n" for line in range(20)))
    return folder


def score(place, *names, ids=True, status=0, **options):
    """The losses by design, the rows of the table, and what was said."""
    out = place / "-".join(["out", *names, *options])
    shutil.rmtree(out, ignore_errors=True)
    more = [part for name, value in options.items() for part in (f"--{name}", *([] if value is True else [value]))]
    files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
    if ids:
        files += ["--documents", place / "test.ids"]
    printed, said = run("score", *(place / each for each in names), "--by-position", *files, "--out", out, *more)
    assert printed == ""
    table = (out / "likelihood.csv").read_text()
    return {each.stem: read_losses(each) for each in out.glob("*.npz")}, list(csv.DictReader(table.splitlines())), said


def lines(place, side):
    return (place / f"corpus/test.{side}").read_text().splitlines()


def encoded(place, name="relative-1"):
    documents = np.arange(20) // 7
    return EncodedTest.of(Run.open(place / name).text(), lines(place, "source"), lines(place, "target"), documents)


@pytest.fixture(scope="module")
def scored(place):
    return score(place, "relative-1", "relative-2", "transformer-1", swap=True, shift=40)


def test_losses_add_up_to_scores(place, scored):
    """Of each run alone, as `posnmt score` prints them."""
    losses = scored[0]["losses"]
    systems = {"relative-1": ("relative", 1), "relative-2": ("relative", 2), "transformer-1": ("transformer", 1)}
    assert losses.models == [Scored(name, *of_run) for name, of_run in systems.items()]
    for row, model in enumerate(losses.models):
        files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
        expected = [-float(line) for line in run("score", place / model.name, *files)[0].split()]
        sums = np.bincount(losses.sentence, losses.losses[row], minlength=20) + losses.ends[row]
        np.testing.assert_allclose(sums, expected, atol=1e-4)


def test_what_stands_beside_the_losses(place, scored):
    losses, test = scored[0]["losses"], encoded(place)
    opened = Run.open(place / "relative-1")
    store = [(each, [*test.targets[each]]) for each in range(20)]
    assert losses.subword.tolist() == [token for _, row in store for token in row]
    assert losses.sentence.tolist() == [each for each, row in store for _ in row]
    assert losses.position.tolist() == [place for _, row in store for place in range(len(row))]
    assert losses.source_lengths.tolist() == [len(row) for row in test.sources]
    assert losses.target_lengths.tolist() == [len(row) for row in test.targets]
    assert losses.characters.tolist() == [len(line) for line in lines(place, "target")]
    assert losses.documents.tolist() == [each // 7 for each in range(20)]
    counts, _ = opened.sentences_by_length
    assert losses.source_exposure.tolist() == [counts[p + 1 :].sum() / counts.sum() for p in range(len(counts) - 1)]
    of_subwords = opened.target_counts(opened.text().target.size)
    np.testing.assert_allclose(losses.unigrams, of_subwords / of_subwords.sum())


def test_the_probability_of_an_early_end(place, scored):
    """The mean before each subword, from the model itself."""
    losses, test = scored[0]["losses"], encoded(place)
    model = Run.open(place / "relative-2").model()
    forced = force_subwords(model, test.sources, test.targets, 50, CPU)
    np.testing.assert_allclose(losses.early_ends[1], [each.ends[:-1].mean() for each in forced], atol=1e-6)


def test_the_report_is_that_of_the_losses(place, scored):
    """Of all designs, with the baseline and the notes of the command."""
    losses, rows, said = scored
    shifted = {f"{side} +40": losses[f"shift-{side}"] for side in ("source", "target", "both")}
    expected = likelihood_report(losses["losses"], losses["after-short"], losses["after-long"], shifted)
    got = {(each["axis"], each["bin"], each["system"]): each for each in rows}
    wanted = list(csv.DictReader(expected.csv.splitlines()))
    assert len(wanted) == len(rows)
    for each in wanted:
        row = got[each["axis"], each["bin"], each["system"]]
        assert row["sentences"] == each["sentences"]
        assert float(row["L"]) == pytest.approx(float(each["L"]), abs=1e-5)
    designs = {each["bin"]: each for each in rows if each["axis"] == "design" and each["system"] == "transformer"}
    assert {"D2", "D3 source +40", "D3 target +40", "D3 both +40"} <= designs.keys()
    kept = losses["after-short"].position >= AFTER_BOUNDARY
    change = (losses["after-long"].losses - losses["after-short"].losses)[:, kept].mean(axis=1)
    assert float(designs["D2"]["L"]) == pytest.approx(change[2], abs=1e-5)
    assert float(designs["D2"]["Delta"]) == pytest.approx(change[2] - change[0], abs=1e-5)
    assert {each["baseline"] for each in rows} == {"", "relative"}
    assert all(sentence in said for sentence in expected.sentences)


def test_the_folder_has_the_page_and_the_figures(place, scored):
    folder = place / "out-relative-1-relative-2-transformer-1-swap-shift"
    page = (folder / "likelihood.html").read_text()
    assert SCOPE in page
    assert (folder / "figures/loss-by-target-position.svg").exists() == ("loss-by-target-position" in page)


def test_the_baseline_may_be_named(place):
    said = {}
    for name in (None, "transformer"):
        options = [] if name is None else ["--baseline", name]
        files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
        printed, said[name] = run(
            "score", place / "relative-1", place / "transformer-1", "--by-position", *files, *options
        )
        rows = list(csv.DictReader(printed.splitlines()))
        assert {each["baseline"] for each in rows} == {"", name or "relative"}
    assert "Nothing is decided between transformer and relative" in said[None]
    assert "Nothing is decided between relative and transformer" in said["transformer"]


def test_swapped_sentences_are_the_same(place, scored):
    """The same subwords after a short and after a long sentence of the document, by their places in the sentence."""
    short, long = scored[0]["after-short"], scored[0]["after-long"]
    for name in ("sentence", "position", "subword", "documents", "characters"):
        assert getattr(short, name).tolist() == getattr(long, name).tolist()
    assert short.position[np.diff(short.sentence, prepend=-1) > 0].tolist() == [0] * len(short.documents)
    counts, _ = Run.open(place / "relative-1").sentences_by_length
    assert short.source_lengths.max() <= percentile(counts, SHORT)
    assert long.source_lengths.min() > longest_reached(exposure(counts))


@pytest.mark.parametrize("name", ["relative-1", "context-1"])
def test_swapped_sentences_are_read_as_they_are_joined_in_training(place, name):
    """Their subwords one behind the other, with breaks between them where the model knows breaks."""
    losses, *_ = score(place, name, swap=True)
    opened, test = Run.open(place / name), encoded(place, name)
    designs = swap_designs(test, opened.sentences_by_length[0])
    for design, after in zip(designs, ("after-short", "after-long"), strict=True):
        both = zip(design.before.tolist(), design.sentences.tolist(), strict=True)
        for number, (first, second) in enumerate(both):
            sides = [(side[first], side[second]) for side in (test.sources, test.targets)]
            source, target = (joined(each) if name == "context-1" else [*each[0], *each[1]] for each in sides)
            [forced] = force_subwords(opened.model(), [source], [target], 1000, CPU)
            own = len(test.targets[second])
            got = losses[after].losses[0][losses[after].sentence == number]
            np.testing.assert_allclose(got, forced.losses[-own - 1 : -1], atol=1e-5)
            assert losses[after].ends[0, number] == pytest.approx(forced.losses[-1], abs=1e-5)
            assert losses[after].early_ends[0, number] == pytest.approx(forced.ends[-own - 1 : -1].mean())


def test_the_nearest_sentences_of_a_document_are_taken():
    """Against plain loops, and at most ten sentences of a document."""
    generator = np.random.default_rng(1)
    lengths, documents = generator.integers(0, 30, 120), np.repeat([0, 1, 2, 3], [50, 40, 28, 2])
    counts = np.bincount([*generator.integers(10, 35, 2000), 90])  # an odd line is no limit
    test = EncodedTest([[4] * n for n in lengths], [[5] * (n // 2) for n in lengths], lengths, documents)
    short, long = percentile(counts, SHORT), 34

    def nearest(place, is_right):
        others = [
            other
            for other in range(120)
            if other != place
            and documents[other] == documents[place]
            and lengths[other] > 0
            and lengths[other] // 2 > AFTER_BOUNDARY
            and is_right(lengths[other] + lengths[place])
        ]
        return min(others, key=lambda other: (abs(other - place), other), default=None)

    expected = {}
    for place in range(120):
        if lengths[place] // 2 > AFTER_BOUNDARY:
            pair = nearest(place, lambda total: total <= short), nearest(place, lambda total: total > long)
            if None not in pair:
                expected[place] = pair
    after_short, after_long = swap_designs(test, counts)
    assert after_short.sentences.tolist() == after_long.sentences.tolist()
    for number, place in enumerate(after_short.sentences.tolist()):
        assert (after_short.before[number], after_long.before[number]) == expected[place]
    for document in range(4):
        possible = [place for place in expected if documents[place] == document]
        taken = [place for place in after_short.sentences.tolist() if documents[place] == document]
        assert len(taken) == min(MOST, len(possible))
        assert len(set(taken)) == len(taken)
        if taken:
            assert (taken[0], taken[-1]) == (possible[0], possible[-1])
    assert max(np.bincount([documents[place] for place in expected])) > MOST, "no document has too many"


def test_shifted_positions(place, scored):
    """They change what sinusoids predict on each side, as the model itself does, and nothing for distances."""
    losses = scored[0]
    plain, test, model = losses["losses"].losses, encoded(place), Run.open(place / "transformer-1").model()
    for side, shift in {"source": (40, 0), "target": (0, 40), "both": (40, 40)}.items():
        changed = losses[f"shift-{side}"].losses
        assert np.abs(changed - plain)[:2].max() < 1e-4
        assert np.abs(changed - plain)[2].max() > 1e-3
        model.shift(*shift)
        forced = force_subwords(model, test.sources, test.targets, 50, CPU)
        np.testing.assert_allclose(changed[2], np.concatenate([each.losses[:-1] for each in forced]), atol=1e-4)


def test_a_run_without_positions_is_not_shifted(place):
    files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
    [line] = refused("score", place / "rnn-1", "--by-position", *files, "--shift", 4)
    assert "rnnsearch" in line
    assert score(place, "rnn-1")[0]["losses"].losses.shape[0] == 1


def test_sentences_beyond_a_table_are_counted_and_left_out(place):
    """All models are compared on those that every model has positions for."""
    losses, rows, said = score(place, "learned-1", "relative-1")
    test, kept = encoded(place), losses["losses"]
    fits = np.maximum(test.source_lengths, test.target_lengths) < 31
    assert 0 < fits.sum() < 20
    assert f"defined in {fits.sum()} of 20 sentences" in said
    defined = np.isfinite(kept.losses)
    assert defined[0].tolist() == fits[kept.sentence].tolist()
    assert np.isfinite(kept.ends[0]).tolist() == fits.tolist()
    assert defined[1].all()
    [whole, _] = [each for each in rows if each["bin"] == "nats per subword"]
    assert int(whole["sentences"]) == fits.sum()
    shown = (place / "out-learned-1-relative-1/likelihood.html").read_text()
    assert f"defined in {fits.sum()} of 20 sentences" in shown
    files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
    [line] = refused("score", place / "learned-1", "--by-position", *files, "--shift", 31)
    assert "position tables" in line


@pytest.mark.parametrize("side", ["sources", "targets"])
def test_a_text_fits_a_table_with_its_special_symbol(place, side):
    texts = {"sources": [[5], [5], [5]], "targets": [[5], [5], [5]], side: [[5] * length for length in (29, 30, 31)]}
    test = EncodedTest(**texts, characters=np.ones(3, int), documents=np.arange(3))
    expected = expect(Run.open(place / "learned-1"), test, {"plain": Design.plain(test)})["plain"]
    assert expected.defined.tolist() == [True, True, False]


def test_other_vocabularies_are_compared_by_character(place):
    """Bits of a sentence are those of its subwords, in units that both have."""
    losses, rows, _ = score(place, "relative-1", "other-1")
    assert losses.keys() == {"losses-1", "losses-2"}
    for name, system in (("losses-1", "relative"), ("losses-2", "transformer")):
        of_bins = [each for each in rows if each["system"] == system]
        total = sum(float(each["bits"]) * int(each["characters"]) for each in of_bins)
        assert total == pytest.approx(losses[name].losses.sum() / np.log(2), rel=1e-5)
        characters = sum(len(line) for line in lines(place, "target"))
        assert sum(int(each["characters"]) for each in of_bins) == characters
    assert not np.array_equal(losses["losses-1"].subword, losses["losses-2"].subword)
    for option in (("--swap", "--documents", place / "test.ids"), ("--shift", 3), ("--baseline", "relative")):
        files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
        [line] = refused("score", place / "relative-1", place / "other-1", "--by-position", *files, *option)
        assert option[0] in line


def test_characters_of_sentences_beyond_a_table_are_in_no_bin(place):
    losses, rows, _ = score(place, "learned-1", "other-1")
    fits = np.isfinite(losses["losses-1"].ends[0])
    assert 0 < fits.sum() < 20
    of_learned = [each for each in rows if each["system"] == "learned"]
    assert sum(int(each["characters"]) for each in of_learned) == losses["losses-1"].characters[fits].sum()
    assert np.isfinite([float(each["bits"]) for each in rows]).all()


def test_documents():
    assert document_numbers(["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]
    assert document_numbers([], 45).tolist() == [0] * 20 + [1] * 20 + [2] * 5


def test_without_ids_blocks_of_lines_are_documents(place):
    losses, _, said = score(place, "relative-1", ids=False)
    assert losses["losses"].documents.tolist() == [0] * 20
    assert "20 lines" in said
    assert "20 lines" in (place / "out-relative-1/likelihood.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["relative-1", "relative-2"], "RUN"),
        (["relative-1", "--swap"], "--swap"),
        (["relative-1", "--out", "{}/x", "--shift", "3"], "--out, --shift"),
        (["relative-1", "--baseline", "relative"], "--baseline"),
        (["relative-1", "--by-position", "--baseline", "rope"], "choose from relative"),
        (["relative-1", "--by-position", "--swap"], "--documents"),
        (["relative-1", "relative-1", "--by-position"], "seed 1"),
        (["relative-1", "--by-position", "--out", "{}/corpus"], "corpus"),
        (["relative-1", "--by-position", "--documents", "{}/short.ids"], "short.ids has 2"),
        (["relative-1", "--by-position", "--documents", "{}/blank.ids"], "blank.ids:3"),
        (["relative-1", "--by-position", "--swap", "--documents", "{}/alone.ids"], "--swap"),
        (["old", "--by-position"], "train it again"),
        (["nowhere", "--by-position"], "no such run folder"),
    ],
)
def test_mistakes(place, arguments, named):
    (place / "short.ids").write_text("a\nb\n")
    (place / "blank.ids").write_text("a\nb\n\n" + "c\n" * 17)
    (place / "alone.ids").write_text("".join(f"{number}\n" for number in range(20)))
    if not (place / "old").exists():
        shutil.copytree(place / "relative-1", place / "old")
        record = json.loads((place / "old/record.json").read_text())
        del record["training_histograms"]
        (place / "old/record.json").write_text(json.dumps(record))
    runs = [each for each in arguments if each in ("nowhere", "old", "relative-1", "relative-2")]
    options = [each.format(place) for each in arguments if each not in runs]
    files = ["--source", place / "corpus/test.source", "--target", place / "corpus/test.target"]
    [error] = refused("score", *(place / each for each in runs), *files, *options)
    assert named in error


def test_runs_that_differ_beside_their_positions_are_named(place):
    copied = place / "smooth-2"
    shutil.copytree(place / "relative-2", copied, dirs_exist_ok=True)
    text = (copied / "config.yaml").read_text()
    assert "label_smoothing: 0.1" in text
    (copied / "config.yaml").write_text(text.replace("label_smoothing: 0.1", "label_smoothing: 0.2"))
    assert "train.label_smoothing" in score(place, "relative-1", "smooth-2")[2]
    assert "runs differ" not in score(place, "relative-1", "relative-2")[2]


def test_trainings_of_other_lengths_are_named(place):
    copied = place / "longer-2"
    shutil.copytree(place / "relative-2", copied, dirs_exist_ok=True)
    opened = Run.open(copied)
    opened.write_record({**opened.record, "training_histograms": {"source": "3:1 50:1", "target": "4:2"}})
    losses, _, said = score(place, "relative-1", "longer-2")
    assert "longer-2 had others" in said
    alone = score(place, "relative-1")[0]["losses"]
    assert losses["losses"].source_exposure.tolist() == alone.source_exposure.tolist()


def test_damaged_files_of_losses(place, scored, tmp_path):
    [path, *_] = (place / "out-relative-1-relative-2-transformer-1-swap-shift").glob("losses.npz")
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"no zip", whole.replace(b"models", b"nodels")):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(UserError):
            read_losses(tmp_path / "x.npz")
    with pytest.raises(UserError):
        read_losses(tmp_path / "none.npz")
