"""Losses of models that were not trained: random, with known effects of position, system, seed and document."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posnmt.evaluation.analyse.losses import Losses, Scored

EXPOSURE = np.concatenate([np.linspace(1, 0.12, 20), np.linspace(0.09, 0.01, 8)])
"""Dense to 19, sparse to 27, beyond from 28 on."""


def random_losses(
    systems=(("a", (1, 2, 3)), ("b", (1, 2, 3))), documents=25, sentences=120, longest=45, seed=0, beyond=None
):
    """Sentences in documents of unequal size; `beyond`: system → what it loses at positions that training lacks."""
    generator = np.random.default_rng(seed)
    models = [Scored(f"{system}:{number}", system, number) for system, numbers in systems for number in numbers]
    lengths = generator.integers(5, longest + 1, sentences)
    of_document = np.sort(generator.choice(documents, sentences, p=generator.dirichlet(np.full(documents, 2.0))))
    of_document = np.unique(of_document, return_inverse=True)[1]
    sentence = np.repeat(np.arange(sentences), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    noise = generator.gamma(2, 1, (len(models), len(sentence)))
    shared = generator.gamma(2, 1, len(sentence)) + generator.normal(0, 0.2, documents)[of_document][sentence]
    losses = shared + 0.1 * noise + generator.normal(0, 0.02, (len(models), 1))
    for place, model in enumerate(models):
        losses[place] += (beyond or {}).get(model.system, 0) * (position >= len(EXPOSURE))
    unigrams = generator.dirichlet(np.full(30, 0.5))
    unigrams[7] = 0
    return Losses(
        losses=losses,
        ends=generator.gamma(2, 0.1, (len(models), sentences)),
        early_ends=generator.uniform(0, 0.01, (len(models), sentences)),
        sentence=sentence,
        position=position,
        subword=generator.integers(0, 30, len(sentence)),
        source_lengths=np.maximum(1, lengths + generator.integers(-4, 5, sentences)),
        target_lengths=lengths,
        characters=4 * lengths,
        documents=of_document,
        models=models,
        source_exposure=EXPOSURE,
        target_exposure=EXPOSURE,
        unigrams=unigrams,
    )


def without_document(losses, document):
    """The losses as if a document had not been tested."""
    kept = losses.documents[losses.sentence] != document
    return replace(
        losses,
        losses=losses.losses[:, kept],
        sentence=losses.sentence[kept],
        position=losses.position[kept],
        subword=losses.subword[kept],
    )
