"""Scores of any subset of sentences are sacreBLEU's own."""

import random

import numpy as np
import pytest
import sacrebleu

from posnmt.base.errors import UserError
from posnmt.metrics.registry import DEFAULT_METRICS
from tests.support.metrics_case import CORPUS_SCORE, Scorer, texts


@pytest.mark.parametrize("metric", DEFAULT_METRICS)
def test_subsets_score_as_sacrebleu_scores_them(metric):
    references, outputs = texts(60, seed=1)
    scorer = Scorer(metric, references)
    statistics = scorer.statistics(outputs)
    draw = random.Random(2)
    subsets = [list(range(60)), [0], *(draw.sample(range(60), size) for size in (1, 2, 5, 17, 40))]
    for rows in subsets:
        expected = CORPUS_SCORE[metric]([outputs[row] for row in rows], [[references[row] for row in rows]]).score
        assert scorer.score(statistics[rows]) == pytest.approx(expected, abs=1e-12)
    assert len({scorer.score(statistics[rows]) for rows in subsets}) > 3, "the subsets do not tell scores apart"


@pytest.mark.parametrize("metric", DEFAULT_METRICS)
def test_a_resample_with_repeats_is_a_sum_too(metric):
    references, outputs = texts(20, seed=3)
    rows = np.random.default_rng(4).integers(0, 20, 20)
    scorer = Scorer(metric, references)
    expected = CORPUS_SCORE[metric]([outputs[row] for row in rows], [[references[row] for row in rows]]).score
    assert scorer.score(scorer.statistics(outputs)[rows]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("tokenizer", ["none", "char", "zh", "intl", "13a"])
def test_bleu_tokenizer_is_used_and_signed(tokenizer):
    references, outputs = texts(30, seed=5)
    scorer = Scorer("bleu", references, bleu_tokenizer=tokenizer)
    expected = sacrebleu.corpus_bleu(outputs, [references], tokenize=tokenizer, force=True).score
    assert scorer.score(scorer.statistics(outputs)) == pytest.approx(expected, abs=1e-12)
    assert f"|tok:{tokenizer}|" in scorer.signature


def test_signatures_are_sacrebleu_s():
    from sacrebleu.metrics import BLEU, CHRF, TER

    for metric, reference_metric in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        reference_metric.corpus_score(["a b"], [["a c"]])
        assert Scorer(metric, ["a c"]).signature == str(reference_metric.get_signature())


def test_unknown_tokenizer_and_metric():
    with pytest.raises(UserError, match=r"no tokeniser '13b' .*did you mean '13a'"):
        Scorer("bleu", ["a"], bleu_tokenizer="13b")
    with pytest.raises(
        UserError, match=r"no metric is called 'meteor'.*there are: bleu, chrf, chrf\+\+, ter, multi-bleu"
    ):
        Scorer("meteor", ["a"])


def test_a_tokenizer_that_is_not_installed(monkeypatch):
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(UserError, match=r"'ja-mecab' cannot be used: .*pip install sacrebleu\[ja\]"):
        Scorer("bleu", ["a"], bleu_tokenizer="ja-mecab")
