"""Artificial evidence for claims, with effects that are known."""

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.study.claims import Claim
from posnmt.study.evidence import Evidence, Output
from posnmt.study.verdict import Rules, decide

REFERENCE = 1000  # a length in the artificial evidence, to which differences are added


def resolve(text):
    system, _, training = text.partition("/")
    return system, training or "all"


def output(system, seed, share=0.0, training="all", **more):
    facts = {"trained_lengths": [2, 49], "parameters": 7, "training_speed": None, "decoding_speed": None, **more}
    return Output(f"{system}/{training}:{seed}", system, training, seed, share, **facts)


def evidence_of(differences, lengths):
    """Evidence of length differences.

    Args:
        differences: of each output with its difference of each sentence, whole numbers.
        lengths: of the sources.
    """
    rows = [REFERENCE + np.asarray(each) for _, each in differences]
    additive = Additive.of({}, rows, np.full(len(lengths), REFERENCE))
    return Evidence(additive.rows.astype(int), additive.columns, np.asarray(lengths), [made for made, _ in differences])


def drawn(generator, effects, lengths, seeds=3, over_seeds=1.0, over_sentences=8.0, of_each=0.0):
    """Evidence of systems whose true difference is a number, or a function of the source lengths.

    Standard deviations: of a system's seeds, of its sentences, and of a seed's single sentences.
    """
    lengths = np.asarray(lengths)
    common = generator.normal(0, 20, len(lengths))
    differences = []
    for system, effect in effects.items():
        own = generator.normal(0, over_sentences, len(lengths)) + (effect(lengths) if callable(effect) else effect)
        for seed in range(1, seeds + 1):
            found = common + own + generator.normal(0, over_seeds)
            if of_each:
                found = found + generator.normal(0, of_each, len(lengths))
            differences.append((output(system, seed), np.round(found).astype(int)))
    return evidence_of(differences, lengths)


def claim(comparison, *beside, **more):
    common = {"analysis": "test", "measure": "length_difference"}
    others = [{**common, **each} for each in beside]
    return Claim.model_validate({"claim": 1, "says": "so", "test": {**common, **comparison}, "beside": others, **more})


def compare(is_, of="a", than="b", **more):
    sides = {
        name: {"system": side} if isinstance(side, str) else side for name, side in (("of", of), ("than", than)) if side
    }
    return {"is": is_, **sides, **more}


def decided(evidence, *comparisons, scale="small", **rules):
    return decide(claim(*comparisons), {"test": evidence}, Rules(resolve, scale, **rules))


def one(evidence, comparison, scale="small", **rules):
    return decided(evidence, comparison, scale=scale, **rules).comparisons[0]


def bleu_evidence(right, sentences=(60, 60), seeds=3, generator=None):
    """Evidence of BLEU on sentences of trained lengths and of longer ones, 20 words each.

    Args:
        right: system -> the share of n-grams that it has right, of trained lengths and of longer ones; or a function of
            the seed that gives the two shares.
        sentences: how many of trained lengths and how many longer ones.
    """
    generator = generator or np.random.default_rng(4)
    lengths = np.repeat([10, 80], sentences)
    total = np.array([20 - order for order in range(4)])
    statistics, outputs = [], []
    for system, shares in right.items():
        for seed in range(1, seeds + 1):
            share = np.where(lengths < 50, *(shares(seed) if callable(shares) else shares))
            correct = generator.binomial(total, share[:, None])
            words = np.full((len(lengths), 1), 20)
            statistics.append(np.hstack([words, words, correct, np.tile(total, (len(lengths), 1))]))
            outputs.append(output(system, seed))
    of_outputs = [np.full(len(lengths), 20)] * len(outputs)
    additive = Additive.of({"bleu": statistics}, of_outputs, np.full(len(lengths), 20))
    return Evidence(additive.rows.astype(int), additive.columns, lengths, outputs)
