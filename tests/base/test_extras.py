"""What is not installed is named before any work begins, and translating needs no extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from posnmt.base.extras import EXTRAS

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests" / "frozen" / "learned"
WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))\n"
    "from posnmt.cli.main import main; main(prog_name='posnmt')"
)
"""The command in a process where the modules that the first argument names cannot be imported."""

TRAIN, ANALYSE = (set(EXTRAS[name].values()) for name in ("train", "analyse"))


def without(modules, *arguments, status=0):
    """Run a command without some modules; its standard output and error."""
    command = [sys.executable, "-c", WITHOUT, " ".join(modules), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def corpus(tmp_path):
    """Training text in two files."""
    lines = [" ".join("abcdefgh"[(at * step) % 8] for at in range(3 + step % 5)) for step in range(60)]
    for name in ("text.en", "text.de"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, packages in EXTRAS.items():
        assert {re.split("[<>=]", each)[0] for each in extras[name]} == set(packages)
    assert extras["all"] == [f"posnmt[{','.join(name for name in EXTRAS if name != 'wandb')}]"]


def test_the_ledger_has_every_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {re.match(r"[\w.-]+", each)[0] for some in packages for each in some} - {"posnmt"}
    page = (ROOT / "docs/decisions/0001-dependencies.md").read_text().split("## Looked at")[0]
    assert set(re.findall(r"^\| ([\w.-]+) \|", page, re.MULTILINE)) - {"package"} == named


@pytest.mark.slow
def test_translating_scoring_and_exporting_need_no_extra(corpus):
    missing = TRAIN | ANALYSE
    source, target = ROOT / "tests/frozen/dev.source", ROOT / "tests/frozen/dev.output"
    out, _ = without(missing, "translate", RUN, "--input", source)
    assert out == target.read_text()
    out, _ = without(missing, "score", RUN, "--source", source, "--target", target)
    assert len(out.splitlines()) == len(source.read_text().splitlines())
    without(missing, "export", RUN, "--format", "ctranslate2", "--out", corpus / "exported")
    for command in (["systems", "rope"], ["data", "list"], ["condition", "artificial", "--out", corpus / "pair"]):
        without(missing, *command)


def test_training_needs_its_extra_alone(corpus):
    sizes = ["model.size=tiny", "train.steps=2", "train.evaluate_every=1", "subword.vocabulary=17"]
    settings = [part for each in sizes for part in ("--set", each)]
    text = ["--source", corpus / "text.en", "--target", corpus / "text.de"]
    dev = ["--dev-source", corpus / "text.en", "--dev-target", corpus / "text.de"]
    without(ANALYSE - TRAIN, "train", *text, *dev, *settings, "--out", corpus / "run")
    assert (corpus / "run" / "model.safetensors").exists()


def test_analysing_needs_its_extra_alone(corpus):
    text = corpus / "text.en"
    without(
        TRAIN - ANALYSE | {"torch"}, "analyse", "--source", text, "--reference", text, "--output", f"same={text}",
        "--samples", 100, "--out", corpus / "analysis",
    )  # fmt: skip
    assert (corpus / "analysis" / "report.html").exists()


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("pyarrow", "train", "prepare CONFIG"),
        ("sacrebleu", "train", "train --source F --target F"),
        ("matplotlib", "analyse", "analyse --source F --reference F --output a=F"),
        ("lightning_fabric", "all", "demo --out OUT"),
        ("jinja2", "all", "study run choose --scale smoke --out OUT"),
        ("tensorboardX", "all", "study plan choose --scale smoke --out OUT"),
        ("matplotlib", "analyse", "study report --out OUT"),
        ("uvicorn", "serve", "serve OUT"),
        ("sacrebleu", "train", "data fetch sacrebleu:wmt20 --pair en-de --cache OUT"),
    ],
)
def test_a_command_says_what_to_install(tmp_path, module, extra, arguments):
    words = [word.replace("OUT", str(tmp_path / "out")) for word in arguments.split()]
    package = next(name for names in EXTRAS.values() for name, each in names.items() if each == module)
    out, err = without({module}, *words, status=2)
    assert (out, err) == ("", f'error: not installed: {package}; pip install "posnmt[{extra}]"\n')
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_does_not_hide_help(corpus):
    out, _ = without(TRAIN | ANALYSE, "train", "--help")
    assert "--resume" in out


@pytest.mark.parametrize("name", ["train", "analyse"])
def test_the_functions_say_what_to_install(name):
    program = (
        "import sys; sys.modules['sacrebleu'] = None; import posnmt\n"
        f"try: posnmt.{name}()\nexcept posnmt.UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f'not installed: sacrebleu; pip install "posnmt[{name}]"\n'
