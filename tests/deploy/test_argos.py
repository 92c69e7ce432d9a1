"""`posnmt export --format argos`. POSNMT_ARGOS_PYTHON: a Python with argostranslate, which is to install a package."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
import sentencepiece
import yaml

from posnmt.data.text import TextPipeline
from tests.support.commands import refused, run
from tests.support.untrained import LEARNED, untrained

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")

SOURCE = Path(__file__).parents[1] / "frozen" / "dev.source"

TRANSLATE = """
import sys
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
for line in sys.stdin.read().splitlines():
    print(translate.translate(line, "en", "xx"))
print(translate.translate("uns mebu zabi. Bevu sipo un leri.", "en", "xx"))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("argos") / "mine.argosmodel"
    out, err = run("export", LEARNED, "--format", "argos", "--languages", "en-xx", "--out", path)
    assert out == f"{path}\n"
    assert "agrees with posnmt" in err
    assert "Argos itself cuts off sentences after 1,024 subwords" in err
    return path


def greedy():
    """posnmt's translations of all lines of `SOURCE`."""
    return run("translate", LEARNED, "--input", SOURCE, "--beam", 1)[0].splitlines()


def test_a_package_has_what_argos_reads(package, tmp_path):
    with zipfile.ZipFile(package) as archive:
        assert {Path(name).parts[0] for name in archive.namelist()} == {"posnmt-en_xx"}
        archive.extractall(tmp_path)
    folder = tmp_path / "posnmt-en_xx"
    about = json.loads((folder / "metadata.json").read_text())
    assert [about[name] for name in ("from_code", "from_name", "to_code", "type")] == [
        "en",
        "English",
        "xx",
        "translate",
    ]
    subwords = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"), compute_type="float32")
    pieces = [subwords.encode(line, out_type=str) for line in SOURCE.read_text().splitlines()]
    results = translator.translate_batch(pieces, beam_size=1)
    assert [subwords.decode_pieces(each.hypotheses[0]) for each in results] == greedy()


def test_the_same_model_gives_the_same_bytes(package, tmp_path, monkeypatch):
    """Whenever it is: members of an archive have a date."""
    monkeypatch.setattr(time, "time", lambda: 1.5e9)
    run("export", LEARNED, "--format", "argos", "--languages", "en-xx", "--out", tmp_path / "mine.argosmodel")
    assert (tmp_path / "mine.argosmodel").read_bytes() == package.read_bytes()


@pytest.mark.skipif("POSNMT_ARGOS_PYTHON" not in os.environ, reason="POSNMT_ARGOS_PYTHON names no Python")
def test_argos_installs_it_and_translates(package, tmp_path):
    """One line a call, and two sentences in one; without a network, if the system can take it away."""
    program = [os.environ["POSNMT_ARGOS_PYTHON"], "-c", TRANSLATE, str(package)]
    settings = {
        "HOME": str(tmp_path),
        "ARGOS_CHUNK_TYPE": "SPACY",
        "ARGOS_BEAM_SIZE": "1",
        "ARGOS_COMPUTE_TYPE": "float32",
    }
    without = ["unshare", "-rn"]
    if subprocess.run([*without, "true"], check=False, capture_output=True).returncode == 0:
        program = [*without, *program]
    text = SOURCE.read_text()
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH",)}
    done = subprocess.run(program, input=text, capture_output=True, text=True, env=outside | settings, check=False)
    assert done.returncode == 0, done.stderr
    *lines, two = done.stdout.splitlines()
    assert lines == greedy()
    sentences = run("translate", LEARNED, "--beam", 1, stdin="uns mebu zabi.\nBevu sipo un leri.\n")[0].split("\n")
    assert two == " ".join(sentences).strip()


def test_refused(tmp_path):
    options = ["--format", "argos", "--out", tmp_path / "a.argosmodel"]
    [line] = refused("export", LEARNED, "--format", "argos", "--out", tmp_path / "a")
    assert "Argos ends in .argosmodel" in line
    [line] = refused("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "a", "--languages", "en-de")
    assert "argos" in line
    assert "(--languages)" in line
    folder = untrained(tmp_path / "two", "rope")
    settings = json.loads((folder / "text" / "text.json").read_text())
    (folder / "text" / "text.json").write_text(json.dumps(settings | {"shared": False}))
    assert not TextPipeline.load(folder / "text").shared
    [line] = refused("export", folder, *options)
    assert "Argos has one SentencePiece model for both sides" in line
    settings["source"]["tokenise"] = "moses"
    (folder / "text" / "text.json").write_text(json.dumps(settings))
    [line] = refused("export", folder, *options)
    assert "Argos cannot tokenise or truecase text" in line
    [line] = refused("export", untrained(tmp_path / "other", "cope"), *options)
    assert "cope" in line
    folder = untrained(tmp_path / "longer", "rope")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "decode": {"positions": {"interpolate": 2}}}))
    [line] = refused("export", folder, *options)
    assert "decode.positions changes positions at inference" in line
    folder = untrained(tmp_path / "many", "rope")
    path = folder / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "marks": {"<2de>": 3, "<2fr>": 2}}))
    [line] = refused("export", folder, *options)
    assert "this run needs <2de>, <2fr>" in line
    assert not list(tmp_path.glob("a*"))
