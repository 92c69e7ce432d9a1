"""Words, numbers and names in an analysis: which text frequencies are from, intervals, differences, and the tables."""

from collections import Counter

import numpy as np
import pytest

from posnmt.base.errors import UserError, UserErrors
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.resample import bootstrap_sums
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.analyse.words import KINDS, count_words
from posnmt.evaluation.report.tables import tables
from posnmt.evaluation.report.words import buckets, words_chart, words_sheet
from posnmt.metrics.buckets import scores
from tests.support.report_case import noisy, sentences

LINES = [f"{line} {number} Berlin" for number, line in enumerate(sentences(50), start=1)]
OUTPUTS = {
    "a": [*LINES[:25], *noisy(LINES[25:], 0.3, 3)], "b:1": noisy(LINES, 0.5, 1), "b:2": noisy(LINES, 0.5, 2),
}  # fmt: skip


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for name, lines in {"text": LINES, **OUTPUTS, "train": ["Berlin Berlin 7"] * 8, "none": [" "]}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))

    def run(frequencies=None, **settings):
        asked = Settings(
            metrics=["bleu"], resampling=Resampling(60), bin_width=10,
            word_frequencies=frequencies and folder / frequencies, **settings,
        )  # fmt: skip
        outputs = {name: folder / name for name in OUTPUTS}
        return analyse(folder / "text", folder / "text", outputs, asked)

    return run


@pytest.fixture(scope="module")
def results(analysed):
    return analysed().results


def test_frequencies_are_those_of_the_training_text_or_else_of_the_reference(analysed, results):
    frequency = results["words"]["frequency"]
    counts = Counter(word for line in LINES for word in line.split())
    assert results["words"]["frequencies"] is None
    assert frequency["labels"][0] == "1"
    assert frequency["reference_words"][0] == sum(count == 1 for count in counts.values()) > 0
    trained = analysed("train").results
    assert trained["words"]["frequencies"].endswith("train")
    assert trained["inputs"][-1]["role"] == "word frequencies"
    of_training = dict(
        zip(trained["words"]["frequency"]["labels"], trained["words"]["frequency"]["reference_words"], strict=True)
    )
    assert of_training["0"] == sum(counts.values()) - 51
    assert (of_training["5-9"], of_training["10-99"]) == (1, 50), "7 is there 8 times, Berlin 16 times"


def test_a_training_text_without_words_is_refused(analysed):
    with pytest.raises((UserError, UserErrors)) as caught:
        analysed("none")
    assert "no words" in str(caught.value)
    with pytest.raises((UserError, UserErrors)) as caught:
        analysed("missing")
    assert "missing" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_are_percentiles_of_the_same_samples(analysed, results, kind):
    counted = count_words(analysed().texts, "13a", None)[kind]
    drawn = bootstrap_sums(np.eye(50)[:, None, :], np.zeros(50, int), 1, 60, 1)
    weights = np.concatenate(list(drawn))[:, 0, 0]
    sampled = scores(np.einsum("sn,nmbk->smbk", weights, counted.counts))
    whole = scores(counted.counts.sum(axis=0))
    for row, system in enumerate(results["words"][kind]["systems"]):
        for measure in counted.measures:
            for place, ends in enumerate(system["intervals"][measure]):
                if system[measure][place] is None:
                    assert ends is None
                    continue
                assert system[measure][place] == pytest.approx(whole[measure][row, place])
                expected = np.nanpercentile(sampled[measure][:, row, place], [2.5, 97.5])
                assert ends == pytest.approx(expected.tolist())
    [pair] = results["words"][kind]["differences"]
    assert (pair["system"], pair["other"]) == ("a", "b")
    for measure in counted.measures:
        for place, figures in enumerate(pair[measure]):
            means = sampled[measure][:, 0, place] - sampled[measure][:, 1:, place].mean(axis=1)
            if figures is not None:
                value = whole[measure][0, place] - whole[measure][1:, place].mean()
                assert figures == pytest.approx([value, *np.nanpercentile(means, [2.5, 97.5])])


def test_tables_have_every_figure(results):
    found = {name: (heading, list(rows)) for name, (heading, rows) in tables(results).items()}
    heading, rows = found["words"]
    for system, kind, bucket, words, measure, value, *ends in rows:
        of_kind = results["words"][kind]
        place = of_kind["labels"].index(bucket)
        [of_system] = [each for each in of_kind["systems"] if each["name"] == system]
        assert (words, value) == (of_kind["reference_words"][place], of_system[measure][place])
        assert ends == list(of_system["intervals"][measure][place] or (None, None))
    kinds = results["words"]
    cells = sum(len(kinds[kind]["labels"]) * len(kinds[kind]["measures"]) for kind in KINDS)
    assert len(rows) == 3 * cells
    assert len(found["word_differences"][1]) == cells
    assert len(heading) == len(rows[0])
    for row in found["word_differences"][1]:
        place = kinds[row[2]]["labels"].index(row[3])
        assert row[5:] == list(kinds[row[2]]["differences"][0][row[4]][place] or [None] * 3)


def test_the_page_marks_what_differs_from_the_first_system(results):
    sheet = words_sheet(results)
    assert [len(grid.rows) for grid in sheet.grids] == [2, 2, 2, 2], "seeds are one row"
    marked = 0
    for grid, (kind, measure) in zip(
        sheet.grids, [("frequency", "f1"), *((kind, "recall") for kind in KINDS)], strict=True
    ):
        of_kind = results["words"][kind]
        shown_places = buckets(of_kind)
        assert [head.title for head in grid.heads] == [of_kind["labels"][place] for place in shown_places]
        assert all(not count for place, count in enumerate(of_kind["reference_words"]) if place not in shown_places)
        for column, place in enumerate(shown_places):
            figures = of_kind["differences"][0][measure][place]
            first, other = (row.cells[column] for row in grid.rows)
            assert first.sign == ""
            if figures is None:
                assert (other.sign, other.own) == ("", "–")
                continue
            assert not other.few
            assert other.sign == ("<" if figures[1] > 0 else ">" if figures[2] < 0 else "")
            marked += bool(other.sign)
            seeds = [each[measure][place] for each in results["words"][kind]["systems"][1:]]
            assert (other.mean, other.low, other.high) == pytest.approx((sum(seeds) / 2, min(seeds), max(seeds)))
            shown = [float(cell.own.partition(" ")[0]) for cell in (first, other)]
            assert [first.best, other.best] == [each == max(shown) for each in shown]
    assert marked > 3
    chart = words_chart(results)
    assert [curve.name for curve in chart.panels[0].curves] == ["a", "b"]
    of_kind = results["words"]["frequency"]
    assert chart.panels[0].curves[0].values == [of_kind["systems"][0]["f1"][place] for place in buckets(of_kind)]
    assert chart.few == []


def test_figures_of_few_words_are_in_parentheses_without_interval_and_mark(tmp_path):
    """Fifteen numbers and names say little, and their intervals less; hundreds of words stay as they are."""
    for name, lines in {"text": LINES, "a": LINES, "b": [line.rpartition(" Berlin")[0] for line in LINES]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[:15]))
    asked = Settings(metrics=["bleu"], resampling=Resampling(60))
    results = analyse(tmp_path / "text", tmp_path / "text", {n: tmp_path / n for n in "ab"}, asked).results
    [*_, parts, kept] = words_sheet(results).grids
    assert [head.about for head in kept.heads] == ["n = 15"] * 2
    for row in kept.rows:
        assert [(cell.few, cell.spread, cell.sign, cell.best) for cell in row.cells] == [(True, "", "", False)] * 2
    assert [cell.mean for cell in kept.rows[1].cells] == [100, 0]
    assert all(cell.spread and not cell.few for row in parts.rows for cell in row.cells)
    chart = words_chart(results)
    assert chart.few == [place for place, count in enumerate(chart.counts[1]) if count < 20]
    assert chart.about_few == "fewer than 20 words of the reference"


def test_buckets_are_shown_from_the_first_to_the_last_with_words():
    labels = ["1", "2-4", "5-9", "10-"]
    for words, shown in (([0, 3, 0, 9], [1, 2, 3]), ([5, 0, 0, 0], [0]), ([0, 0, 0, 0], [0, 1, 2, 3])):
        assert buckets({"labels": labels, "reference_words": words}) == shown


def test_without_samples_there_are_values_alone(analysed):
    plain = analysed().results["words"]["kept"]
    folder = analysed().texts[0].file.path.parent
    alone = analyse(
        folder / "text", folder / "text", {"a": folder / "a"}, Settings(metrics=["bleu"], resampling=Resampling(0))
    ).results["words"]["kept"]
    assert alone["systems"][0]["recall"] == plain["systems"][0]["recall"]
    assert (alone["systems"][0]["intervals"], alone["differences"]) == (None, None)
