"""SentencePiece alone, as a user of its Python module has it: learning from two files, and encoding them.

    python prepare_sentencepiece.py learn SOURCE TARGET PREFIX VOCABULARY SAMPLE THREADS
    python prepare_sentencepiece.py encode SOURCE TARGET PREFIX OUT_SOURCE OUT_TARGET THREADS

The settings are posnmt's own: shared BPE, four special entries, the same cap on sentences. Encoding writes pieces.
"""

from __future__ import annotations

import sys
from itertools import islice

import sentencepiece

CHUNK = 10_000


def learn(source: str, target: str, prefix: str, vocabulary: str, sample: str, threads: str) -> None:
    """Write PREFIX.model, of as many entries as posnmt's."""
    sentencepiece.SentencePieceTrainer.train(
        input=[source, target], model_prefix=prefix, model_type="bpe", vocab_size=int(vocabulary) + 4,
        character_coverage=1.0, pad_id=0, unk_id=1, bos_id=2, eos_id=3, input_sentence_size=2 * int(sample),
        shuffle_input_sentence=True, num_threads=int(threads), minloglevel=2,
    )  # fmt: skip


def encode(source: str, target: str, prefix: str, out_source: str, out_target: str, threads: str) -> None:
    """Write both files as pieces with blanks between them."""
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    for path, out in ((source, out_source), (target, out_target)):
        with open(path, encoding="utf-8", newline="\n") as lines, open(out, "w", encoding="utf-8") as pieces:
            while chunk := list(islice(lines, CHUNK)):
                rows = subwords.encode(chunk, out_type=str, num_threads=int(threads))
                pieces.writelines(" ".join(row) + "\n" for row in rows)


if __name__ == "__main__":
    {"learn": learn, "encode": encode}[sys.argv[1]](*sys.argv[2:])
