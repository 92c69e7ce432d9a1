"""The README: each block runs, in order, and each scheme has an entry that uses it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from posnmt_position import SCHEMES
from posnmt_position.registry import scheme_class

README = Path(__file__).parents[1] / "README.md"
if not README.exists():  # the tests were copied beside an installed wheel
    pytest.skip("the README is not beside the tests", allow_module_level=True)
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python[^\n]*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
ENTRIES = dict(re.findall(r"^### ([\w-]+)\n(.*?)(?=^##)", TEXT.split("## The schemes")[1], re.MULTILINE | re.DOTALL))
FIRST = BLOCKS[0][1]


def run(names, source):
    exec(compile(source, str(README), "exec", dont_inherit=True), names)
    return names


def test_the_blocks_run_in_order():
    names = {"__name__": "__main__"}
    for head, source in BLOCKS:
        if head == "python":
            run(names, source)


@pytest.mark.skipif(find_spec("transformers") is None, reason="needs the package transformers, a peer")
def test_the_block_for_hugging_face():
    names = {"__name__": "__main__"}
    for _, source in BLOCKS[: [head for head, _ in BLOCKS].index("python transformers") + 1]:
        run(names, source)
    bert, words, torch = names["bert"], names["words"], names["torch"]
    names["views"][:] = names["join"]([], layers=2)  # nothing knows the order now
    with torch.no_grad():
        swapped, plain = (bert(each).last_hidden_state for each in (words.flip(1), words))
    torch.testing.assert_close(swapped.flip(1), plain)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_has_an_entry_with_its_paper_and_three_lines(name):
    entry = ENTRIES[name]
    assert re.search(r"\b(19|20)\d\d\b", entry.split("```")[0])
    source = re.search(r"^```python\n(.*?)^```", entry, re.MULTILINE | re.DOTALL)[1]
    assert len(source.splitlines()) == 3
    names = run(run({}, FIRST), source)
    assert type(names["scheme"]) is scheme_class(name)


def test_no_other_schemes_have_entries():
    assert ENTRIES.keys() == SCHEMES.keys()
