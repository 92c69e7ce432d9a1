"""Folders of strangers: no code in them is run, whether it is pickled or lies beside the model."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.deploy.importing import marian, opennmt
from posnmt.deploy.server.clients import Keys
from tests.support.marian import write


class Touch:
    """An object that writes a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", ["marian", "opennmt"])
def test_no_object_is_unpickled(tmp_path, name, zipped):
    written = tmp_path / "written"
    folder = write(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    content = {"a": torch.zeros(2), "opt": Touch(written), "vocab": {}}
    torch.save(content, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    reads = {
        "marian": lambda: marian.read(folder, ("en", "de")),
        "opennmt": lambda: opennmt.read(folder / "pytorch_model.bin", ("en", "de"), None),
    }
    with pytest.raises(UserError, match="whose code would run") as raised:
        reads[name]()
    assert len(raised.value.lines) == 1
    assert not written.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert written.exists(), "unpickled, it does write"


def test_no_code_of_a_folder_is_imported(tmp_path):
    folder = write(tmp_path / "model")
    code = f"import os\nos.mkdir({str(tmp_path / 'written')!r})\n"
    for name in ("modeling_marian.py", "configuration_marian.py", "tokenization_marian.py", "__init__.py", "own.py"):
        (folder / name).write_text(code)
    for file in ("config.json", "tokenizer_config.json"):
        tree = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
        code_of = {"AutoConfig": "own.Own", "AutoModelForSeq2SeqLM": "own.Own", "AutoTokenizer": ["own.Own", None]}
        (folder / file).write_text(json.dumps({**tree, "auto_map": code_of, "trust_remote_code": True}))
    before = {*sys.modules}
    marian.read(folder, ("en", "de"))
    assert not (tmp_path / "written").exists()
    assert not [
        name for name in {*sys.modules} - before
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder))
    ]  # fmt: skip


def test_every_key_is_compared_whole(monkeypatch):
    import hmac

    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or real(a, b))
    keys = Keys({"one": "a", "two": "b", "three": "c"})
    assert [keys.owner(each) for each in ("one", "three", "thre", "", None)] == ["a", "c", None, None, None]
    assert compared == [(32, 32)] * 9, "all keys, also after one that fits"
