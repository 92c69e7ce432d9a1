"""Bombs of weights, checkpoints and subword models: see `bombs.py`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.bomb import MIB, Bomb

# Checkpoints of PyTorch and OpenNMT


def _saved(made: Callable[[], Any], legacy: bool = False) -> Callable[[Path, bool], None]:
    def make(place: Path, bomb: bool) -> None:
        import torch

        tree = {"a": made() if bomb else torch.zeros(4)}
        torch.save(tree, place / "a", _use_new_zipfile_serialization=not legacy)

    return make


def _repeated() -> Any:
    import torch

    return torch.zeros(1).expand(10**9)


def _overlapping() -> Any:
    """Windows of a storage, each a number further: a million times as many numbers as it has."""
    import torch

    return torch.zeros(2000).as_strided((1000, 1000, 1000), (1, 0, 1))


def _sparse() -> Any:
    import torch

    return torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (10**5, 10**4))


def _declared_storage(place: Path, bomb: bool) -> None:
    """The older format of PyTorch, with a storage of 2^33 numbers, of which the file has four."""
    import torch

    torch.save({"a": torch.zeros(4)}, place / "a", _use_new_zipfile_serialization=False)
    if bomb:
        content = (place / "a").read_bytes()
        number = b"\x8a\x05" + (2**33).to_bytes(5, "little")  # LONG1 in place of BININT1
        at = content.index(b"cpu")
        at = content.index(b"K\x04", at)
        (place / "a").write_bytes(content[:at] + number + content[at + 2 :])


def _bytearray(place: Path, bomb: bool) -> None:
    """A pickle that makes an array of bytes by its length."""
    import torch

    torch.save({"a": torch.zeros(4)}, place / "a")
    if bomb:
        text = b"\x80\x02}X\x01\x00\x00\x00ac__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85Rs."
        with zipfile.ZipFile(place / "a") as old:
            files = {name: old.read(name) for name in old.namelist()}
        with zipfile.ZipFile(place / "a", "w", zipfile.ZIP_STORED) as new:
            for name, content in files.items():
                new.writestr(name, text if name.endswith("data.pkl") else content)


def _checkpoint(place: Path) -> None:
    from posnmt.deploy.importing.checkpoint import tensors_of, unpickled

    for tensor in tensors_of(unpickled(place / "a"), place / "a").values():
        tensor.float().sum()


def _opennmt(**changes: int) -> Callable[[Path, bool], None]:
    """A checkpoint of OpenNMT-py whose options are other than its weights."""

    def make(place: Path, bomb: bool) -> None:
        import torch

        from tests.support.onmt_checkpoint import write

        write(place / "a", words=True)
        if bomb:
            tree = torch.load(place / "a", weights_only=False)
            vars(tree["opt"]).update(changes)
            torch.save(tree, place / "a")

    return make


def _import(place: Path) -> None:
    from posnmt.deploy.importing.opennmt import read

    read(place / "a", ("en", "de"), None)


# Safetensors and arrays


def _many_tensors(place: Path, bomb: bool) -> None:
    """A header of empty tensors, of which each is an object of Python."""
    entry = '"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    text = ("{" + ",".join(entry.format(number) for number in range(1_000_000 if bomb else 1)) + "}").encode()
    (place / "a").write_bytes(len(text).to_bytes(8, "little") + text)


def _tensors(place: Path) -> None:
    from posnmt.model.weights import read_tensors

    read_tensors(place / "a")


def _array(shape: tuple[int, ...], size: int) -> bytes:
    """A file of an array with a shape, and so many zeros."""
    import numpy as np

    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(size)


def _losses(array: Callable[[], bytes]) -> Callable[[Path, bool], None]:
    """A file of losses, one of whose arrays is exchanged."""

    def make(place: Path, bomb: bool) -> None:
        from posnmt.evaluation.analyse.losses import write_losses
        from tests.support.losses_case import random_losses

        write_losses(place / "a.npz", random_losses(documents=2, sentences=4))
        if bomb:
            with zipfile.ZipFile(place / "a.npz") as old:
                files = {name: old.read(name) for name in old.namelist()}
            with zipfile.ZipFile(place / "a.npz", "w", zipfile.ZIP_DEFLATED) as new:
                for name, content in files.items():
                    new.writestr(name, array() if name == "losses.npy" else content)

    return make


def _read_losses(place: Path) -> None:
    from posnmt.evaluation.analyse.losses import read_losses

    read_losses(place / "a.npz")


# SentencePiece


def _model_with_table(place: Path, table: Callable[[bytes], bytes] | None) -> None:
    """A SentencePiece model that replaces `a`, whose table of normalisation is changed."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    (place / "rule").write_text("61\t62\n")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["c d e f"] * 9), model_writer=out, vocab_size=9, hard_vocab_limit=False,
        normalization_rule_tsv=str(place / "rule"), minloglevel=2,
    )  # fmt: skip
    message = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    if table is not None:
        message.normalizer_spec.precompiled_charsmap = table(message.normalizer_spec.precompiled_charsmap)
    (place / "a.model").write_bytes(message.SerializeToString())


def _long_replacement(place: Path, bomb: bool) -> None:
    """A letter is replaced by a million letters."""

    def longer(table: bytes) -> bytes:
        end = 4 + int.from_bytes(table[:4], "little")
        assert table[end:] == b"b\0"
        return table[:end] + b"b" * MIB + b"\0"

    _model_with_table(place, longer if bomb else None)


def _long_piece(place: Path, bomb: bool) -> None:
    """A piece of a million letters."""
    _model_with_table(place, None)
    if bomb:
        from sentencepiece import sentencepiece_model_pb2

        message = sentencepiece_model_pb2.ModelProto.FromString((place / "a.model").read_bytes())
        message.pieces[-1].piece = "c" * MIB
        (place / "a.model").write_bytes(message.SerializeToString())


def _split(place: Path) -> None:
    from posnmt.data.subword import Subwords

    subwords = Subwords.load(place / "a.model")
    subwords.encode(["a" * 3000])
    subwords.decode([[len(subwords) - 1] * 200])


BOMBS = {
    "torch, repeated": Bomb(_saved(_repeated), _checkpoint, 32),
    "torch, overlapping": Bomb(_saved(_overlapping), _checkpoint, 32),
    "torch, sparse": Bomb(_saved(_sparse), _checkpoint, 32),
    "torch, declared": Bomb(_declared_storage, _checkpoint, 32),
    "torch, an array of bytes": Bomb(_bytearray, _checkpoint, 32),
    "opennmt, layers": Bomb(_opennmt(layers=10**9), _import, 64),
    "opennmt, d_model": Bomb(_opennmt(hidden_size=2**40), _import, 64),
    "opennmt, distance": Bomb(_opennmt(max_relative_positions=10**9), _import, 64),
    "safetensors, many": Bomb(_many_tensors, _tensors, 256),
    "npz, declared": Bomb(_losses(lambda: _array((10**12,), 8)), _read_losses, 32),
    "npz, zeros": Bomb(_losses(lambda: _array((50 * MIB,), 400 * MIB)), _read_losses, 32),
    "sentencepiece, replacement": Bomb(_long_replacement, _split, 64),
    "sentencepiece, piece": Bomb(_long_piece, _split, 64),
}
