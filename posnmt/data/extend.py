"""Adds entries to a SentencePiece model for characters that it lacks; all other text is split as before.

BPE merges nothing with a character outside the vocabulary, and every segmentation by the unigram model has a cut on
both sides of it. So an entry for such a character, which no longer entry contains, only changes how this character is
read. Longer new entries would change more: in BPE they are merges, whose ranks among the old ones cannot be known from
new text alone; in the unigram model they compete with the old entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.data.subword import Subwords


def extended(subwords: Subwords, texts: Iterable[str], coverage: float, folder: Path) -> Subwords:
    """A model whose first entries are those of `subwords`, followed by characters of the texts that it lacks.

    Args:
        texts: tokenised.
        coverage: the share of the characters of the texts that the extended model has; the rarest remain unknown.
        folder: of the model, for messages.

    Raises:
        UserError: the model splits text neither by BPE nor by the unigram model, has bytes for unknown characters, or
            has a vocabulary beside it.
    """
    if subwords.entries is not None:
        what = "the vocabulary is not the SentencePiece model's own, as after `posnmt import`, and cannot be extended"
        raise UserError(what, folder, "leave subword.pieces out")
    model = subwords.message
    trained = model.trainer_spec
    if trained.byte_fallback or trained.model_type not in (trained.BPE, trained.UNIGRAM):
        what = "only BPE and unigram models that have unknown characters can be extended"
        raise UserError(what, folder, "leave subword.pieces out")
    counts = Counter[str]()
    for text in texts:
        counts.update(subwords.normalised(text))
    unknown = {character: count for character, count in counts.items() if subwords.lacks(character)}
    allowed, lacking = (1 - coverage) * counts.total(), sum(unknown.values())
    least = min(piece.score for piece in model.pieces)
    for character, count in sorted(unknown.items(), key=lambda pair: (-pair[1], pair[0])):
        if lacking <= allowed:
            break
        lacking -= count
        least -= 1.0
        model.pieces.add(piece=character, score=least, type=model.SentencePiece.NORMAL)
    trained.vocab_size = len(model.pieces)
    return Subwords(model.SerializeToString())
