"""The sentence to cite: what the verdict says first, and everything that it depends on."""

import re

import pytest

from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.printed import caption, of_analysis
from posnmt.evaluation.report.write import write
from tests.support.report_case import noisy, sentences, without_figures


@pytest.fixture
def analysis_of(tmp_path):
    def run(*names, count=120, **settings):
        lines = sentences(count)
        for name, text in {"test.en": lines, "a": noisy(lines, 0.2, 1), "b": noisy(lines, 0.4, 2)}.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
        asked = Settings(**{"metrics": ["chrf", "bleu"], "resampling": Resampling(70, seed=5), **settings})
        outputs = {name: tmp_path / name for name in names}
        return analyse(tmp_path / "test.en", tmp_path / "test.en", outputs, asked)

    return run


@pytest.fixture
def results_of(analysis_of):
    return lambda *names, **settings: analysis_of(*names, **settings).results


def test_it_has_all_that_its_sentence_depends_on(results_of, tmp_path):
    (tmp_path / "ids").write_text("".join(f"{number // 3}\n" for number in range(120)))
    results = results_of("a", "b", documents=tmp_path / "ids")
    said, by_length = results["citation"], results["verdict"]["by_length"]
    assert said.startswith(by_length["sentence"].removesuffix("."))
    assert results["verdict"]["sentence"].startswith(by_length["sentence"])
    conditions = said.removeprefix(by_length["sentence"].removesuffix("."))
    parts = [
        "120 sentences of test.en", f"chrF {results['signatures']['chrf']}", f"{len(by_length['cuts'])} cuts",
        "in words", "70 bootstrap samples of documents, seed 5", f"posnmt {results['versions']['posnmt']}",
    ]  # fmt: skip
    for part in parts:
        assert part in conditions
    assert str(tmp_path) not in said
    assert "pairs" not in said


@pytest.mark.parametrize(("documents", "drawn"), [("ids", "documents"), (None, "sentences")])
def test_captions_and_the_page_say_what_the_intervals_draw(analysis_of, tmp_path, documents, drawn):
    (tmp_path / "ids").write_text("".join(f"{number // 3}\n" for number in range(120)))
    analysis = analysis_of("a", "b", documents=documents and tmp_path / documents)
    for kind in ("length", "difference"):
        [chart] = of_analysis(analysis.results, kind, None)
        assert f"over {drawn}" in caption(chart, "range")
    with without_figures():
        write(analysis, tmp_path / "out", 0)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert {*re.findall(r"bootstrap samples of the (\w+)", page)} == {drawn}


@pytest.mark.parametrize(
    ("names", "settings"),
    [(["a"], {}), (["a", "b"], {"resampling": Resampling(0)}), (["a", "b"], {"bin_width": 10, "unit": "characters"})],
)
def test_whatever_was_not_tested_is_not_cited(results_of, names, settings):
    results = results_of(*names, **settings)
    tested = bool(results["verdict"]["by_length"])
    assert ("cuts" in results["citation"]) == tested
    assert ("bootstrap samples of sentences" in results["citation"]) == tested
    if not tested:
        assert results["citation"].startswith(results["verdict"]["sentence"].removesuffix("."))
    else:
        assert "lengths in characters" in results["citation"]


@pytest.mark.parametrize(
    ("names", "settings", "pairs"),
    [
        (["a", "b"], {}, None), (["a", "b", "test.en"], {}, "3 pairs of systems (Holm)"),
        (["a", "b", "test.en"], {"correction": "none"}, None),
    ],
)  # fmt: skip
def test_verdicts_on_groups_are_cited_with_their_own_test(results_of, names, settings, pairs):
    """59 sentences have no cut with thirty on both sides."""
    results = results_of(*names, count=59, resampling=Resampling(70, seed=5, **settings))
    assert results["verdict"]["by_length"]["cuts"] == []
    said = results["citation"].removeprefix(results["verdict"]["of_groups"].removesuffix("."))
    assert "approximate randomisation, 70 samples of sentences, seed 5" in said
    assert "bootstrap" not in said
    assert re.findall(r"corrected for ([^;]*\))", said) == [pairs] * (pairs is not None)


@pytest.mark.parametrize(
    ("spoil", "doubts"),
    [
        (lambda lines, source: lines, 0),
        (lambda lines, source: [*lines[1:], lines[0]], 1),
        (lambda lines, source: lines[::-1], 1),
    ],
)
def test_doubts_that_files_fit_each_other_are_in_what_is_pasted(tmp_path, spoil, doubts):
    source = sentences(120)
    texts = {"test.en": source, "a": noisy(source, 0.2, 1), "b": spoil(noisy(source, 0.1, 2), source)}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    asked = Settings(metrics=["bleu"], resampling=Resampling(70, seed=5))
    results = analyse(tmp_path / "test.en", tmp_path / "test.en", {n: tmp_path / n for n in "ab"}, asked).results
    assert len(results["misfits"]) == doubts
    assert set(results["misfits"]) <= set(results["warnings"])
    assert re.findall(r"(\d+) warnings? that files may not fit", results["citation"]) == ["1"] * doubts
