"""The code in an export: copies of posnmt's modules with which it loads where posnmt is not installed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from posnmt.config.schema import Decode
from tests.support import tiny
from tests.support.commands import run
from tests.support.untrained import LEARNED

pytest.importorskip("transformers", reason="Transformers are not installed (extra huggingface)")

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.dynamic_module_utils import get_imports, get_relative_imports

from posnmt.deploy.card import PACKAGES as NAMED
from posnmt.deploy.huggingface.code import ENTRIES, copies
from tests.support.wrapped import drawn, padded, wrapped

EXPORTED = [name for name in tiny.MODELS if not name.startswith("shared-private")]

PACKAGES = {"filelock", "numpy", "pydantic", "pydantic_core", "regex", "rich", "sacremoses", "safetensors"}
PACKAGES |= {"sentencepiece", "torch", "transformers", "typing_extensions", "yaml"}
"""What the copies may import, beside Python's own modules."""

ALONE = """
import sys

HIDDEN = set(sys.argv.pop(1).split())

class Without:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if HIDDEN & {name, name.split(".")[0]} else self._finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
"""The beginning of a program in a Python without the modules that its first argument names."""


def hidden():
    """posnmt's modules, and those of all packages that the card does not name and that those it names do not need."""
    needed, waiting = set(), [*NAMED]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name not in needed:
            needed.add(name)
            with suppress(PackageNotFoundError):  # of another system
                found = [each for each in requires(name) or () if "extra ==" not in each]
                waiting += [re.match(r"[\w.-]+", each)[0] for each in found]
    owners = packages_distributions().items()
    others = {name for name, of in owners if not needed & {re.sub(r"[-_.]+", "-", each).lower() for each in of}}
    return {"posnmt", "posnmt_position", *others, *(["google.protobuf"] if "protobuf" not in needed else [])}


LOGITS = """
import json
from pathlib import Path
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

inputs = load_file(sys.argv[1])
for folder in map(Path, sys.argv[2:]):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    found = {"logits": model(**inputs).logits, "searched": model.generate(**inputs, max_new_tokens=5)}
    save_file({name: each.detach().contiguous() for name, each in found.items()}, folder / "found.safetensors")
"""


def alone(program, *arguments, cache, status=0):
    """Run a program in a Python without posnmt; its standard output and error."""
    here = Path(__file__).parents[2]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and here not in _above(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE + program, " ".join(hidden()), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=environment, cwd=cache, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def _above(path):
    return [Path(path).resolve(), *Path(path).resolve().parents]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run for Transformers."""
    folder = tmp_path_factory.mktemp("exported") / "mine"
    run("export", LEARNED, "--format", "huggingface", "--out", folder)
    return folder


def test_copies_are_whole():
    """They import one another, packages that are named, and no posnmt; Transformers finds what it has to copy."""
    texts = set()
    for name in EXPORTED:
        made, found = copies(tiny.settings(**tiny.MODELS[name])), {entry.replace(".", "_") for entry in ENTRIES}
        waiting = [*found]
        while waiting:
            new = set(re.findall(r"^\s*from \.(\w+) import", made[waiting.pop()], re.MULTILINE)) - found
            found |= new
            waiting += new
        assert found == made.keys()
        texts.update(made.values())
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                assert {name.split(".")[0] for name in names} <= PACKAGES | set(sys.stdlib_module_names)


def test_transformers_reads_the_same_imports(exported):
    for path in exported.glob("*.py"):
        assert set(get_imports(path)) <= PACKAGES | set(sys.stdlib_module_names)
        assert all((exported / f"{name}.py").exists() for name in get_relative_imports(path))


def same_logits(names, folder):
    """Whether these systems compute and search the same in a Python without posnmt."""
    inputs = {**padded(drawn()), "decoder_input_ids": torch.tensor([[2, 5, 6, 7]] * 3)}
    save_file(inputs, folder / "inputs.safetensors")
    wanted = {}
    for name in names:
        other = wrapped(tiny.build(**tiny.MODELS[name]), Decode()).float()
        other.save_pretrained(folder / name)
        wanted[name] = other(**inputs).logits, other.generate(**inputs, max_new_tokens=5)
    alone(LOGITS, folder / "inputs.safetensors", *(folder / name for name in names), cache=folder)
    for name, (logits, searched) in wanted.items():
        found = load_file(folder / name / "found.safetensors")
        assert torch.equal(found["logits"], logits), name
        assert torch.equal(found["searched"], searched), name


def test_a_python_without_posnmt_computes_the_same(tmp_path):
    same_logits(["cross-relative", "rnn-nmt"], tmp_path)


@pytest.mark.slow
def test_a_python_without_posnmt_computes_the_same_with_every_system(tmp_path):
    same_logits(EXPORTED, tmp_path)


TEXTS = """
import json
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

place, lines = sys.argv[1], json.loads(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(place, trust_remote_code=True)
outputs = model.generate(**tokenizer(lines, return_tensors="pt", padding=True))
translate = pipeline("translation", model=place, trust_remote_code=True)
texts = [tokenizer.batch_decode(outputs, skip_special_tokens=True)]
texts.append([each["translation_text"] for [each] in translate(lines)])
if len(sys.argv) > 3:
    model.save_pretrained(sys.argv[3])
    tokenizer.save_pretrained(sys.argv[3])
print(json.dumps(texts))
"""


@pytest.mark.slow
def test_texts_are_translated_without_posnmt_also_from_the_hub_and_saved_again(exported, tmp_path):
    """The hub is its cache on this machine; for what comes from there, Transformers reads the imports of each file."""
    lines = ["uns mebu", "", "Bevu sipo un"]
    tokenizer, model = AutoTokenizer.from_pretrained(exported), AutoModelForSeq2SeqLM.from_pretrained(exported)
    outputs = model.generate(**tokenizer(lines, return_tensors="pt", padding=True))
    wanted = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    assert wanted[1] == "" != wanted[0]
    stored = tmp_path / "hub" / "models--me--mine"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("0" * 40)
    (stored / "snapshots").mkdir()
    (stored / "snapshots" / ("0" * 40)).symlink_to(exported, target_is_directory=True)
    saved = tmp_path / "saved"
    for arguments in (["me/mine"], [exported, saved], [saved]):
        place, *rest = arguments
        out, _ = alone(TEXTS, place, json.dumps(lines), *rest, cache=tmp_path)
        assert json.loads(out.splitlines()[-1]) == [wanted, wanted]


REFUSED = """
import os
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

for load in (AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer):
    for trust in ({}, {"trust_remote_code": False}):
        try:
            load.from_pretrained(sys.argv[1], **trust)
        except ValueError as error:
            assert "trust_remote_code" in str(error)
        else:
            raise AssertionError(load)
assert not [name for name in sys.modules if name.startswith("transformers_modules.")]
assert not os.path.exists(os.path.join(os.environ["HF_HOME"], "modules", "transformers_modules"))
"""


def test_without_trust_nothing_of_the_folder_runs(exported, tmp_path):
    alone(REFUSED, exported, cache=tmp_path)


def test_a_scheme_from_outside_is_not_carried(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from posnmt.position import LayerPosition, Options, Scheme\n"
        "class Mine(Scheme):\n"
        "    class Settings(Options):\n"
        '        """None."""\n'
        "    def __init__(self, stack, settings):\n"
        "        super().__init__()\n"
        "    def layer(self, index):\n"
        "        return LayerPosition()\n"
    )
    program = (
        "import sys, torch\n"
        "from posnmt.base import plugins\n"
        "from tests.support.untrained import untrained\n"
        "from tests.support.commands import run\n"
        "with plugins.allowing():\n"
        "    plugins.admit(['mine:Mine'])\n"
        "    untrained(__import__('pathlib').Path('run'), 'mine:Mine')\n"
        "    _, err = run('export', 'run', '--format', 'huggingface', '--out', 'model')\n"
        "print(err)\n"
    )
    root = Path(__file__).parents[2]
    paths = [str(tmp_path), str(root), str(root / "position"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the folder has no code" in done.stdout
    folder = tmp_path / "model"
    assert [*folder.glob("*.py")] == []
    assert not json.loads((folder / "config.json").read_text()).get("auto_map")
    assert "trust_remote_code" not in (folder / "README.md").read_text()


def test_the_folder_says_what_it_carries(exported):
    config = json.loads((exported / "config.json").read_text())
    named = [*config["auto_map"].values(), config["custom_pipelines"]["translation"]["impl"]]
    named.append(json.loads((exported / "tokenizer_config.json").read_text())["auto_map"]["AutoTokenizer"][0])
    assert {name.split(".")[0] for name in named} == {entry.replace(".", "_") for entry in ENTRIES}
    about = json.loads((exported / "posnmt.json").read_text())
    assert about["code"] is True
    assert {path.name for path in exported.glob("*.py")} <= about["files"].keys()
    card = (exported / "README.md").read_text()
    assert "trust_remote_code=True" in card
    [_, head, _] = card.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "transformers"
