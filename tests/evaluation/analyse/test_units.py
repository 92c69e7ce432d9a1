"""Texts of any script, and several references: what is counted, by files and on the command line."""

import json
import random

import numpy as np
import pytest
import sacrebleu
from click.testing import CliRunner
from sacrebleu.metrics import BLEU, CHRF, TER

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.evaluation.analyse import units
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.intervals import resampled_measures
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.metrics.registry import METRICS
from tests.support.analyse_case import OUTPUT, REFERENCE, SOURCE
from tests.support.shared import SHARED, needs

JAPANESE = ["猫はマットの上に座った。", "今日は天気がとても良いです。", "彼は東京の大学で勉強しています。", "はい"]
ENGLISH = ["The cat sat on the mat.", "The weather is very good today.", "He studies in Tokyo.", "Yes"]
CHINESE = ["猫坐在垫子上。", "今天天气很好。", "他在东京的一所大学学习。", "是的"]
THAI = ["แมวนั่งอยู่บนเสื่อ", "วันนี้อากาศดีมาก", "เขาเรียนที่มหาวิทยาลัยในโตเกียว", "ใช่"]
SEGMENTED = ["猫 は マット の 上 に 座っ た 。", "今日 は 天気 が 良い です 。", "彼 は 勉強 し て い ます 。", "はい"]
FEW = Resampling(40)


def settings_of(results):
    return [results["settings"][key] for key in ("bleu_tokenizer", "unit", "target_unit")]


@pytest.mark.parametrize(
    ("source", "reference", "expected"),
    [
        (ENGLISH, ENGLISH, ["13a", "words", "words"]),
        (ENGLISH, JAPANESE, ["ja-mecab", "words", "characters"]),
        (JAPANESE, ENGLISH, ["13a", "characters", "words"]),
        (JAPANESE, CHINESE, ["zh", "characters", "characters"]),
        (ENGLISH, THAI, ["char", "words", "characters"]),
        (ENGLISH, SEGMENTED, ["none", "words", "words"]),
    ],
)
def test_what_is_counted_follows_the_script(run, tmp_path, source, reference, expected):
    results = run({"a": reference}, source, reference, metrics=["bleu", "ter"], resampling=FEW)
    assert settings_of(results) == expected
    assert f"|tok:{expected[0]}" in results["signatures"]["bleu"]
    characters = expected[2] == "characters"
    assert f"|tok:{'char' if characters else 'tercom'}|" in results["signatures"]["ter"]
    lengths = [len(line) if characters else len(line.split()) for line in reference]
    assert results["length_distributions"][0]["first"][0] in (0, min(lengths))
    assert results["bins"][0]["label"] == ("0-19" if expected[1] == "characters" else "0-9")
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert all(reason in page for reason in results["settings"]["reasons"])
    assert f"BLEU counts {'' if expected[0] in ('char', 'none') else 'the words of '}" in page
    assert not [warning for warning in results["warnings"] if "the same text" not in warning]


def test_scores_of_japanese_are_sacrebleu_s(run):
    output = [JAPANESE[0], "今日は天気が悪いです。", "彼は大学で東京の勉強をする。", "いいえ"]
    system = run({"a": output}, ENGLISH, JAPANESE, metrics=["bleu", "chrf", "ter"], resampling=FEW)["systems"][0]
    scores = system["overall"]
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(output, [JAPANESE], tokenize="ja-mecab").score)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(output, [JAPANESE]).score)
    apart = [[" ".join(line) for line in text] for text in (output, JAPANESE)]
    assert scores["ter"] == pytest.approx(TER().corpus_score(apart[0], apart[1:]).score)
    longer = sum(map(len, output)) - sum(map(len, JAPANESE))
    assert scores["length_difference"] == pytest.approx(longer / 4)


@pytest.mark.parametrize(
    ("code", "tokenizer", "warning"),
    [
        ("zh", "zh", "looks like Japanese, not like the --target-language zh"),
        ("JA", "ja-mecab", None),
        ("de", "13a", "may rank systems the wrong way round; choose --bleu-tokenizer ja-mecab or char"),
    ],
)
def test_the_language_decides(run, code, tokenizer, warning):
    results = run({"a": THAI}, ENGLISH, JAPANESE, target_language=code, resampling=FEW)
    assert settings_of(results)[0] == tokenizer
    assert results["settings"]["target_language"] == code
    others = [each for each in results["warnings"] if not each.startswith("output a: is written in Thai")]
    assert len(others) < len(results["warnings"])
    assert (warning or "") in " ".join(others)
    assert bool(warning) == bool(others)


def test_what_is_asked_for_and_means_nothing_is_a_warning(run):
    chosen = {"unit": "words", "bleu_tokenizer": "13a", "metrics": ["bleu", "multi-bleu", "chrf++"]}
    results = run({"a": SEGMENTED}, CHINESE, JAPANESE, resampling=FEW, **chosen)
    assert settings_of(results) == ["13a", "words", "words"]
    starts = [
        "source: lengths in words mean nothing",
        "reference: lengths in words mean nothing",
        "BLEU with the tokeniser 13a means nothing",
        "multi-bleu means nothing",
        "chrf++: its word n-grams mean nothing",
        "output a: is written in Japanese, segmented, the reference in Japanese, without spaces",
    ]
    for start, warning in zip(starts, results["warnings"], strict=True):
        assert warning.startswith(start)


def test_packages_that_are_not_installed(run, monkeypatch):
    monkeypatch.setattr("posnmt.config.writing.find_spec", lambda name: None)
    results = run({"a": JAPANESE}, ENGLISH, JAPANESE, resampling=FEW)
    assert settings_of(results)[0] == "char"
    assert "pip install 'posnmt[ja]'" in results["warnings"][0]
    monkeypatch.setattr(units, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"ko-mecab are not installed .*posnmt\[ko\].*--bleu-tokenizer 13a"):
        run(target_language="ko")
    assert run(target_language="ko-KR", bleu_tokenizer="13a", resampling=FEW)["settings"]["bleu_tokenizer"] == "13a"
    monkeypatch.setattr(units, "find_spec", lambda name: name)
    assert units._korean_tokenizer() == "ko-mecab"


def test_a_language_that_is_no_code(run):
    with pytest.raises(UserError, match="'Japanese!' is no language code"):
        run(target_language="Japanese!")
    with pytest.raises(UserError, match=r"'jp' is the code of a country \(--target-language\); its language is ja"):
        run(target_language="jp")


def test_two_references_on_the_command_line(files, tmp_path):
    other = [line.replace("the", "that") or "certainly" for line in OUTPUT]
    paths = [str(files(name, lines)) for name, lines in (("s", SOURCE), ("r", REFERENCE), ("r2", other), ("o", OUTPUT))]
    call = [
        "analyse",
        "--source",
        paths[0],
        "--reference",
        paths[1],
        "--reference",
        paths[2],
        "--output",
        f"o={paths[3]}",
    ]
    call += ["--samples", "40", "--bin-edges", "3,6", "--out", str(tmp_path / "out"), "--metrics", "chrf++"]
    done = CliRunner().invoke(main, [*call, "--metrics", "bleu", "--metrics", "ter", "--metrics", "chrf"])
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    system = results["systems"][0]
    scorers = {
        "bleu": sacrebleu.corpus_bleu,
        "chrf": sacrebleu.corpus_chrf,
        "ter": sacrebleu.corpus_ter,
        "chrf++": lambda *texts: sacrebleu.corpus_chrf(*texts, word_order=2),
    }
    lengths = [len(line.split()) for line in SOURCE]
    for scores, first, last in zip([system["overall"], *system["bins"]], [0, 0, 3, 6], [99, 2, 5, 99], strict=True):
        rows = [row for row, length in enumerate(lengths) if first <= length <= last]
        outputs, *references = ([text[row] for row in rows] for text in (OUTPUT, REFERENCE, other))
        for metric, scorer in scorers.items():
            assert scores[metric] == pytest.approx(scorer(outputs, references).score)
    assert all(signature.startswith("nrefs:2|") for signature in results["signatures"].values())
    assert [each["role"] for each in results["inputs"]] == ["source", "reference", "reference 2", "output"]
    assert "against all 2 references, lengths are compared with the first one" in " ".join(
        results["settings"]["reasons"]
    )
    longer = sum(len(line.split()) for line in OUTPUT) - sum(len(line.split()) for line in REFERENCE)
    assert system["overall"]["length_difference"] == pytest.approx(longer / len(SOURCE))
    assert "chrF++" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_no_reference_is_refused(files):
    with pytest.raises(UserError, match="there is no reference"):
        analyse(files("s", SOURCE), [], {"a": files("o", OUTPUT)})


def test_a_second_reference_of_other_length_is_refused(files):
    references = [files("one", REFERENCE), files("two", REFERENCE[:-1])]
    with pytest.raises(UserError, match=r"two has 6"):
        analyse(files("s", SOURCE), references, {"a": files("o", OUTPUT)})


def test_one_reference_more_changes_neither_lengths_nor_recall(files):
    paths = files("s", SOURCE), files("r", REFERENCE), {"a": files("o", OUTPUT)}
    settings = Settings(resampling=FEW)
    one = analyse(*paths, settings).results
    two = analyse(paths[0], [paths[1], files("r2", [line or "no" for line in OUTPUT])], paths[2], settings).results
    assert one["length_distributions"] == two["length_distributions"]
    for kind in ("relative", "absolute"):
        first, second = (each["positions"]["systems"][0][kind] for each in (one, two))
        assert first["recall"] == second["recall"]
        assert first["n"] == second["n"]
        assert all(value in (None, pytest.approx(100)) for value in second["precision"])
    assert two["systems"][0]["overall"]["bleu"] > one["systems"][0]["overall"]["bleu"]


def test_an_empty_line_in_one_of_several_references_is_no_reference(files):
    """Everything is as sacreBLEU has it with None: overall, by bin, and in samples, of each metric."""
    one, other = [*REFERENCE], [line.replace("the", "that") for line in REFERENCE]
    one[1] = other[3] = other[4] = one[5] = other[5] = ""
    other[6] = " "
    known = [[line if line.strip() else None for line in text] for text in (one, other)]
    known[0][5] = ""  # no reference at all
    settings = Settings(resampling=FEW, bin_edges=[3, 6], metrics=METRICS)
    paths = files("s", SOURCE), [files("one", one), files("other", other)], {"a": files("o", OUTPUT)}
    analysis = analyse(*paths, settings)
    results = analysis.results
    scorers = {"bleu": BLEU(force=True), "chrf": CHRF(), "ter": TER(), "chrf++": CHRF(word_order=2)}
    lengths = np.array([len(line.split()) for line in SOURCE])
    system = results["systems"][0]
    parts = [lengths >= 0, lengths < 3, (lengths >= 3) & (lengths < 6), lengths >= 6]
    for scores, part in zip([system["overall"], *system["bins"]], parts, strict=True):
        rows = np.flatnonzero(part)
        outputs, *references = ([text[row] for row in rows] for text in (OUTPUT, *known))
        for metric, scorer in scorers.items():
            expected = scorer.corpus_score(outputs, references).score
            assert scores[metric] == pytest.approx(expected, rel=1e-12, abs=1e-12), metric
    sampled = resampled_measures(analysis.additive, np.zeros(7, int), 1, 8, 5)
    drawn = np.random.default_rng([5, 0])
    for sample in range(8):
        rows = drawn.integers(0, 7, size=7)
        for metric, scorer in scorers.items():
            expected = scorer.corpus_score(
                [OUTPUT[row] for row in rows], [[text[row] for row in rows] for text in known]
            )
            assert sampled[metric][sample, 0, 0] == pytest.approx(expected.score, rel=1e-12, abs=1e-12), metric
    assert all(signature.startswith("nrefs:var|") for signature in results["signatures"].values())
    first = [line or other[row] for row, line in enumerate(one)]
    assert analysis.texts[1].lines == first
    longer = sum(len(line.split()) for line in OUTPUT) - sum(len(line.split()) for line in first)
    assert system["overall"]["length_difference"] == pytest.approx(longer / len(SOURCE))
    assert "(5 of 7 lines have fewer)" in " ".join(results["settings"]["reasons"])
    said = " ".join(results["warnings"])
    assert "reference: 2, reference 2: 4 of 7 lines are empty; they are no references" in said
    assert "references: 1 of 7 lines are empty in all of them" in said
    assert "output a: 1 of 7 lines are empty; they are kept" in said


def test_a_single_reference_keeps_its_empty_lines(files):
    reference = ["", *REFERENCE[1:]]
    results = analyse(
        files("s", SOURCE), files("r", reference), {"a": files("o", OUTPUT)}, Settings(resampling=FEW)
    ).results
    assert results["systems"][0]["overall"]["bleu"] == pytest.approx(sacrebleu.corpus_bleu(OUTPUT, [reference]).score)
    assert "reference: 1, output a: 1 of 7 lines are empty; they are kept" in " ".join(results["warnings"])


def systems_of(reference):
    """A system with small errors everywhere, and one that translates a third of the sentences, and others otherwise."""
    draw = random.Random(1)
    letters = "".join(reference)
    careful = ["".join(draw.choice(letters) if draw.random() < 0.06 else each for each in line) for line in reference]
    others = draw.sample(reference, len(reference))
    careless = [line if draw.random() < 0.35 else other for line, other in zip(reference, others, strict=True)]
    return {"careful": careful, "careless": careless}


@needs("enja_wmt_news/sets/newstest2021-enja.ja")
def test_japanese_news_is_ranked_the_right_way_round(run):
    """With 13a, whose words of such text are clauses, the system that gets two thirds of the sentences wrong wins."""
    source, reference = (
        (SHARED / f"enja_wmt_news/sets/newstest2021-enja.{side}").read_text(encoding="utf-8").split("\n")[:300]
        for side in ("en", "ja")
    )
    outputs = systems_of(reference)
    results = run(outputs, source, reference, resampling=Resampling(100), metrics=["bleu", "ter"])
    assert settings_of(results) == ["ja-mecab", "words", "characters"]
    careful, careless = (system["overall"] for system in results["systems"])
    assert careful["bleu"] > careless["bleu"] + 20
    assert careful["ter"] < careless["ter"] - 20
    assert "On 300 sentences, careful has" in results["verdict"]["sentence"]
    wrong = run(outputs, source, reference, bleu_tokenizer="13a", resampling=FEW, metrics=["bleu"])
    careful, careless = (system["overall"]["bleu"] for system in wrong["systems"])
    assert careful < careless - 10
    assert any("wrong way round" in warning for warning in wrong["warnings"])
