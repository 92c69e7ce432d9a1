"""Several references, chrF++ and TER of characters are sacreBLEU's own, for any subset of the sentences."""

import random

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from posnmt.metrics.metric import of_sentences, padded
from posnmt.metrics.registry import METRICS
from tests.support.metrics_case import Scorer, texts
from tests.support.shared import SHARED, needs

SACREBLEU = {
    "bleu": lambda: BLEU(force=True),
    "chrf": CHRF,
    "chrf++": lambda: CHRF(word_order=2),
    "ter": TER,
    "multi-bleu": lambda: BLEU(tokenize="none", smooth_method="none", force=True),
}


def several(count, references, seed):
    """Outputs, and texts of references that resemble each other; some lines are empty."""
    first, outputs = texts(count, seed)
    others = [texts(count, seed + number)[0] for number in range(1, references)]
    draw = random.Random(seed)
    mixed = [
        [
            " ".join(draw.choice(pair) for pair in zip(one.split(" "), other.split(" "), strict=False))
            for one, other in zip(first, of_text, strict=True)
        ]
        for of_text in others
    ]
    return outputs, [first, *mixed]


def agree(metric, outputs, references, subsets, **options):
    scorer = Scorer(metric, references[0], further=references[1:], **options)
    statistics = scorer.statistics(outputs)
    scores = set()
    for rows in subsets:
        theirs = SACREBLEU[metric]()
        expected = theirs.corpus_score(
            [outputs[row] for row in rows], [[text[row] for row in rows] for text in references]
        )
        assert scorer.score(statistics[rows]) == pytest.approx(expected.score, abs=1e-9)
        scores.add(expected.score)
    assert len(scores) > len(subsets) / 2, "the subsets do not tell scores apart"
    if metric != "multi-bleu":
        assert scorer.signature == str(theirs.get_signature())
    return scorer, statistics


def gaps(references, seed):
    """The same references, of which each sentence lacks some; the first text has gaps, too."""
    draw = random.Random(seed)
    lines = []
    for of_line in zip(*references, strict=True):
        kept = draw.sample(range(len(references)), draw.randint(1, len(references)))
        lines.append([line if text in kept else None for text, line in enumerate(of_line)])
    return [list(text) for text in zip(*lines, strict=True)]


def subsets_of(count, seed):
    draw = random.Random(seed)
    return [list(range(count)), *(draw.sample(range(count), size) for size in (1, 2, 5, 10, 20, 40, 50))]


@pytest.mark.parametrize("references", [1, 2, 3, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_corpora_and_parts_score_as_sacrebleu_scores_them(metric, references):
    outputs, of_texts = several(60, references, seed=11)
    if metric == "multi-bleu":  # which splits at blanks of ASCII alone
        outputs, *of_texts = ([line.replace("\u2028", "-") for line in text] for text in (outputs, *of_texts))
    scorer, _ = agree(metric, outputs, of_texts, subsets_of(60, 3))
    assert scorer.signature.startswith(f"nrefs:{references}|")


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_sentence_scores_are_sacrebleu_s(metric):
    outputs, references = several(60, 3, seed=5)
    statistics = Scorer(metric, references[0], further=references[1:]).statistics(outputs)
    theirs = BLEU(effective_order=True) if metric == "bleu" else SACREBLEU[metric]()
    expected = [theirs.sentence_score(*row).score for row in zip(outputs, zip(*references, strict=True), strict=True)]
    assert METRICS[metric].score(statistics, sentences=True) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("references", [2, 3, 5])
@pytest.mark.parametrize("metric", METRICS)
def test_a_missing_reference_is_sacrebleu_s_none(metric, references):
    """Corpora, parts and sentences; numbers of references that differ, and one that is the same for all of a part."""
    outputs, of_texts = several(60, references, seed=21)
    outputs, *of_texts = ([line.replace("\u2028", "-") for line in text] for text in (outputs, *of_texts))
    of_texts = gaps([[line or "one" for line in text] for text in of_texts], seed=references)
    assert len({*map(len, of_sentences([[line or "" for line in text] for text in of_texts]))}) > 1
    scorer = Scorer(metric, of_texts[0], further=of_texts[1:])
    statistics = scorer.statistics(outputs)
    for rows in subsets_of(60, 4):
        theirs = SACREBLEU[metric]()
        expected = theirs.corpus_score(
            [outputs[row] for row in rows], [[text[row] for row in rows] for text in of_texts]
        )
        assert scorer.score(statistics[rows]) == pytest.approx(expected.score, abs=1e-12, rel=1e-12)
        if len(rows) == 60:
            signature = str(theirs.get_signature())
            assert scorer.signature.startswith("nrefs:var|")
            assert metric == "multi-bleu" or scorer.signature == signature
    if metric != "multi-bleu":
        theirs = BLEU(effective_order=True) if metric == "bleu" else SACREBLEU[metric]()
        expected = [
            theirs.sentence_score(output, [line for line in of_line if line is not None]).score
            for output, of_line in zip(outputs, zip(*of_texts, strict=True), strict=True)
        ]
        assert METRICS[metric].score(statistics, sentences=True) == pytest.approx(expected, abs=1e-12, rel=1e-12)


def test_a_gap_is_no_reference_and_the_first_one_stands_in_its_place():
    texts = [["a", "", "", " "], ["b", "c", "", "d"], ["", "", "", "e"]]
    assert of_sentences(texts) == [["a", "b"], ["c"], [""], ["d", "e"]]
    assert padded(of_sentences(texts)) == [["a", "c", "", "d"], ["b", "c", "", "e"]]
    assert of_sentences([["a", ""]]) == [["a"], [""]]
    lines = [["a", "b"], [None, "c"]]
    assert Scorer("ter", lines[0], further=[lines[1], [None, None]]).signature.startswith("nrefs:var|")
    assert Scorer("ter", lines[0], further=[["c", None], [None, "d"]]).signature.startswith("nrefs:2|")


@pytest.mark.parametrize("metric", ["bleu", "ter", "multi-bleu"])  # chrF takes the first of equally good references
def test_the_order_of_the_references_does_not_matter(metric):
    outputs, (one, other) = several(60, 2, seed=8)
    scores = [
        scorer.score(scorer.statistics(outputs))
        for scorer in (Scorer(metric, one, further=[other]), Scorer(metric, other, further=[one]))
    ]
    assert scores[0] == pytest.approx(scores[1])


def test_ter_of_characters_is_that_of_separated_characters():
    outputs, references = several(60, 2, seed=9)
    scorer = Scorer("ter", references[0], further=references[1:], characters=True)
    separated = [[" ".join(line) for line in text] for text in (outputs, *references)]
    assert scorer.score(scorer.statistics(outputs)) == pytest.approx(
        TER().corpus_score(separated[0], separated[1:]).score
    )
    assert "|tok:char|" in scorer.signature
    assert "|tok:tercom|" in Scorer("ter", references[0]).signature


def real(name, count=300):
    return (SHARED / name).read_text(encoding="utf-8").split("\n")[:count]


@needs("zhen_wmt_news/sets/newstest2020-enzh.refB.zh")
@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_two_human_references_of_real_text(metric):
    """One reference is scored against itself and the other one, after a share of its sentences lost their end."""
    references = [real(f"zhen_wmt_news/sets/newstest2020-enzh{name}.zh", 100) for name in ("", ".refB")]
    outputs = [line[: len(line) // (1 + row % 3)] for row, line in enumerate(references[1])]
    rows = [list(range(first, first + 25)) for first in (0, 25, 50, 75)]
    agree(metric, outputs, [references[0], references[1][1:] + references[1][:1]], rows)
