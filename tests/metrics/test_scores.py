"""Vectorised corpus scores are sacreBLEU's, one corpus at a time; multi-bleu's are those of multi-bleu.perl."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from posnmt.metrics.bleu import bleu_words
from posnmt.metrics.ngrams import bleu_statistics, matches
from posnmt.metrics.registry import METRICS
from tests.support.metrics_case import Scorer, texts

SACREBLEU = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}


def scores_one_by_one(metric, sums):
    """sacreBLEU's own score of each row."""
    return [SACREBLEU[metric]._compute_score_from_stats(row.tolist()).score for row in sums]


@pytest.mark.parametrize("metric", SACREBLEU)
def test_scores_of_many_corpora_are_sacrebleu_s(metric):
    references, outputs = texts(80, seed=7)
    statistics = Scorer(metric, references).statistics(outputs)
    generator = np.random.default_rng(8)
    # from a single sentence, where orders are missing, to the whole
    sizes = (1,) * 150 + (2, 3, 10, 80) * 40
    sums = np.stack([statistics[generator.integers(0, 80, size)].sum(axis=0) for size in sizes])
    found = METRICS[metric].score(sums.astype(float).reshape(10, 31, -1)).ravel()
    expected = scores_one_by_one(metric, sums)
    assert len(set(expected)) > 100
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", SACREBLEU)
def test_scores_of_any_counts_are_sacrebleu_s(metric):
    """Counts no text has either: zeros everywhere, matches of high orders alone."""
    generator = np.random.default_rng(9)
    width = {"bleu": 10, "chrf": 18, "ter": 2}[metric]
    sums = generator.integers(0, 4, (500, width)) * generator.integers(0, 3, (500, 1))
    if metric == "bleu":  # no more matches than n-grams
        sums[:, 2:6] = np.minimum(sums[:, 2:6], sums[:, 6:])
    np.testing.assert_allclose(METRICS[metric].score(sums), scores_one_by_one(metric, sums), rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter", "multi-bleu"])
def test_no_counts_score_nothing(metric):
    width = {"chrf": 18, "ter": 2}.get(metric, 10)
    assert METRICS[metric].score(np.zeros((2, width))).tolist() == [0, 0]


@pytest.mark.parametrize("tokenizer", ["13a", "char", "zh", "intl", "none"])
def test_bleu_is_counted_as_sacrebleu_counts_it(tokenizer):
    references, outputs = texts(60, seed=10)
    oracle = BLEU(tokenize=tokenizer, references=[references], force=True)
    counted = Scorer("bleu", references, bleu_tokenizer=tokenizer).statistics(outputs)
    assert counted.tolist() == oracle._extract_corpus_statistics(outputs, None)


@pytest.mark.parametrize("alphabet", ["ab c", "äöü 日本語\u2028\U0001f600x", "".join(map(chr, range(0x4E00, 0x6E00)))])
def test_chrf_is_counted_as_sacrebleu_counts_it(alphabet):
    """Short lines, where orders are missing on one side; and so many characters that six do not fit in 64 bits."""
    draw = random.Random(14)
    references, outputs = (
        ["".join(draw.choices(alphabet, k=draw.randint(0, 40))) for _ in range(300)] for _ in range(2)
    )
    outputs[:20] = references[:20]
    outputs[20:40] = [line[3:30] + line[:10] for line in references[20:40]]
    oracle = CHRF(references=[references])._extract_corpus_statistics(outputs, None)
    assert Scorer("chrf", references).statistics(outputs).tolist() == oracle


def test_chrf_of_as_many_characters_as_a_power_of_two():
    """Where numbers of n-grams that overflow would not have the first character: 2^13 to the fifth power is 2^65."""
    alphabet = "".join(map(chr, range(0x4E00, 0x6E00)))
    references = [alphabet[start : start + 32] for start in range(0, len(alphabet), 32)]
    outputs = [other[0] + line[1:] for line, other in zip(references, references[1:] + references[:1], strict=True)]
    oracle = CHRF(references=[references])._extract_corpus_statistics(outputs, None)
    assert Scorer("chrf", references).statistics(outputs).tolist() == oracle


def test_chrf_of_long_and_short_lines_together():
    draw = random.Random(15)
    references = ["".join(draw.choices("abcdef", k=2 ** draw.randint(0, 12))) for _ in range(60)]
    outputs = [line[draw.randrange(len(line)) :] for line in references]
    oracle = CHRF(references=[references])._extract_corpus_statistics(outputs, None)
    assert Scorer("chrf", references).statistics(outputs).tolist() == oracle


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter", "multi-bleu"])
def test_systems_counted_together_count_as_alone(metric):
    references, first = texts(30, seed=16)
    systems = [first, texts(30, seed=17)[1], references]
    scorer = Scorer(metric, references)
    together = scorer.statistics_of(systems)
    assert [found.tolist() for found in together] == [scorer.statistics(lines).tolist() for lines in systems]
    assert together[0].tolist() != together[1].tolist()


def test_words_of_13a_taken_piece_by_piece_are_sacrebleu_s():
    draw = random.Random(18)
    signs = [*".,-&<>()'\"@/\\", *"  019aé日", "\t", "\u00a0", "\u2028", "&quot;", "&amp;lt;", "<skipped>", "-", "."]
    lines = ["".join(draw.choices(signs, k=draw.randint(0, 25))) for _ in range(3000)]
    oracle = BLEU()
    words = bleu_words("13a")
    assert [words(line) for line in lines] == [oracle._preprocess_segment(line).split() for line in lines]


def test_repeated_ngrams_share_their_matches():
    output, reference = list("abaab"), list("abca")
    (found,) = matches([[output]], [reference], 2)
    (ones, of_reference), (twos, _) = found.orders
    shares = {0: 2 / 3, 1: 1 / 2, 2: 2 / 3, 3: 2 / 3, 4: 1 / 2}  # two of three a, one of two b
    assert dict(zip(ones.starts.tolist(), ones.matched.tolist(), strict=True)) == shares
    assert of_reference.matched.tolist() == [1, 1, 0, 1]
    assert twos.matched.tolist() == [1 / 2, 0, 0, 1 / 2]  # a b twice, once in the reference


def test_ngrams_do_not_reach_into_another_sentence():
    (found,) = matches([[["a", "b"], ["c"], []]], [["a"], ["b", "c"], ["c"]], 2)
    assert bleu_statistics(found).tolist() == [[2, 1, 1, 0, 2, 1], [1, 2, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0]]


# What multi-bleu.perl of the Moses repository prints (scripts/generic, SHA-256 887238409e4e…, perl 5.36): BLEU, the
# four precisions, the lengths of output and reference.
MULTI_BLEU = {
    "one word wrong": (["the cat sat on a mat"], ["the cat sat on the mat"], (53.73, 83.3, 60.0, 50.0, 33.3, 6, 6)),
    "several sentences, too short": (
        ["this is a small house", "she reads the old book in the", "yes"],
        ["this is a small house by the lake", "she reads the old book in the garden", "yes , of course"],
        (58.36, 100, 100, 100, 100, 13, 20),
    ),
    "too long": (["a b c d e f g h", "a b c d"], ["a b c d e f", "a b c d"], (75.98, 83.3, 80, 75, 66.7, 12, 10)),
    "no match of four words": (["the cat sat the mat on"], ["the cat sat on the mat"], (0, 100, 60, 25, 0, 6, 6)),
    "an empty output": (
        ["", "it rains in the north today"],
        ["it is dry", "it rains in the north today"],
        (60.65, 100, 100, 100, 100, 6, 9),
    ),
    "repeated words": (
        ["the the the the the the", "of the of the of the of"],
        ["the cat the dog of the the", "the of the of the king of the"],
        (38.33, 76.9, 54.5, 33.3, 28.6, 13, 15),
    ),
    "blanks of every kind": (
        ["a\tb  c d\u00a0e f g h", "\u3000 x y z w v"],
        ["a b c d\u00a0e f g i", "x y z w\u3000v \u3000"],
        (58.43, 76.9, 63.6, 55.6, 42.9, 13, 12),
    ),
    "case counts": (
        ["The Cat sat on the mat today"],
        ["the Cat sat on the mat today"],
        (80.91, 85.7, 83.3, 80, 75, 7, 7),
    ),
}


@pytest.mark.parametrize("case", MULTI_BLEU)
def test_multi_bleu_is_the_script_s(case):
    outputs, references, (bleu, *precisions, output_length, reference_length) = MULTI_BLEU[case]
    scorer = Scorer("multi-bleu", references)
    statistics = scorer.statistics(outputs)
    assert scorer.score(statistics) == pytest.approx(bleu, abs=0.005)
    counted = statistics.sum(axis=0)
    assert counted[:2].tolist() == [output_length, reference_length]
    assert (100 * counted[2:6] / counted[6:]).tolist() == pytest.approx(precisions, abs=0.05)


def test_multi_bleu_of_tokenised_text_without_smoothing_is_sacrebleu_s():
    draw = random.Random(11)
    references = [" ".join(draw.choices("abcde", k=draw.randint(1, 15))) for _ in range(50)]
    outputs = [" ".join(draw.choices("abcde", k=draw.randint(1, 15))) for _ in range(50)]
    oracle = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(outputs, [references]).score
    scorer = Scorer("multi-bleu", references)
    assert oracle > 1
    assert scorer.score(scorer.statistics(outputs)) == pytest.approx(oracle, abs=1e-9)
