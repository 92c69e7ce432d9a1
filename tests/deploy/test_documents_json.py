"""JSON as documents: values are translated; keys, numbers and the form of the file stay."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.deploy.documents.segment import Kept, has_letters
from tests.support.document_case import installed, opened, shouted, texts, translate

PAGE = """{
    "title":"The cat",  "count": 3,
\t"menu": {"open": "Open\\nthe file", "home": "https://a.example/b", "key : \\"x\\"": ["One", "12", true, null]},
  "empty": ""  , "caf\u00e9": "a/b \\"c\\" \u00e9"
}
"""


def strings(tree, is_key=False):
    """Every string of a tree, and whether it is a key."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key, True
            yield from strings(value)
    elif isinstance(tree, list):
        for each in tree:
            yield from strings(each)
    elif isinstance(tree, str):
        yield tree, False


def test_values_are_translated_and_all_else_stays():
    document = opened("json", PAGE)
    assert document.content().decode() == PAGE
    assert texts(document) == [(2, "The cat"), (3, "Open*the file"), (3, "One"), (3, "12"), (4, 'a/b "c" é')]
    assert [(each.line, each.text) for each in document.kept if each.reason == "keys"] == [
        (2, "title"), (2, "count"), (3, "menu"), (3, "open"), (3, "home"), (3, 'key : "x"'), (4, "empty"), (4, "café"),
    ]  # fmt: skip
    assert [each for each in document.kept if each.reason != "keys"] == [Kept(3, "https://a.example/b", "addresses")]
    assert Counter(each.reason for each in document.kept) == {"keys": 8, "addresses": 1}
    translate(document)
    expected = PAGE
    for old, new in (("The cat", "THE CAT"), ("Open\\nthe file", "OPEN\\nTHE FILE"), ("One", "ONE")):
        expected = expected.replace(old, new)
    assert document.content().decode() == expected.replace('a/b \\"c\\" é', 'A/B \\"C\\" É')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "x é"}', '{"a": "X É"}'),
        (r'{"a": "x \u00e9"}', r'{"a": "X \u00c9"}'),
        (r'{"é": "x \u00e9"}', '{"é": "X É"}'),
        (r'{"a": "x\/y"}', r'{"a": "X\/Y"}'),
        (r'{"a": "x/y"}', '{"a": "X/Y"}'),
        ('"x"', '"X"'),
        ('["x", ["y"]]', '["X", ["Y"]]'),
        ('\ufeff{"a":"x"}\r\n', '\ufeff{"a":"X"}\r\n'),
        ('{"a": "x", "a": "y"}', '{"a": "X", "a": "Y"}'),
        ('{"a": "https://x.example", "b": "me@x.example", "c": "see https://x.example"}',
         '{"a": "https://x.example", "b": "me@x.example", "c": "SEE HTTPS://X.EXAMPLE"}'),
        (f'{{"a": {"9" * 5000}, "b": "x"}}', f'{{"a": {"9" * 5000}, "b": "X"}}'),
    ],
)  # fmt: skip
def test_strings_are_written_as_the_file_writes_them(text, expected):
    assert shouted("json", text) == expected


def test_white_space_and_items_of_a_message_stay():
    message = "  Two lines\nof text.  More\ttext\n\n- One\n- Two\n    indented\n"
    document = opened("json", json.dumps([message]))
    assert [text for _, text in texts(document)] == ["Two lines*of text.*More*text", "- One", "- Two", "indented"]
    translate(document)
    assert json.loads(document.content()) == [message.upper()]


def test_half_of_a_surrogate_pair_is_kept():
    document = opened("json", r'["x \ud800", "\ud83d\ude00 y"]')
    assert [each.reason for each in document.kept] == ["texts with half of a surrogate pair"]
    translate(document)
    assert document.content().decode() == r'["x \ud800", "\ud83d\ude00 Y"]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": "x",\n "b" "y"}', r"not valid JSON: Expecting ':' delimiter at column 6 \(page:2\); correct it"),
        ('{"a": "x"\n', r"not valid JSON: .* \(page:2\)"),
        ('{"a": "x\ny"}', r"not valid JSON: Invalid control character at at column 9 \(page:1\)"),
        ("", r"not valid JSON: Expecting value at column 1 \(page:1\); name a file with text"),
        ("[" * 100_000, r"nested too deeply \(page\)"),
        (b'["\n\xff"]', r"not valid utf-8: byte 0xFF \(page:2\)"),
    ],
)
def test_what_is_not_json(text, message):
    with pytest.raises(UserError, match=message):
        opened("json", text)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@settings(max_examples=150, deadline=None)
@given(TREES, st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_any_tree(tree, is_ascii, indent):
    text = json.dumps(tree, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    document = opened("json", text)
    assert document.content() == text
    read = ["".join(p if isinstance(p, str) else p.content for p in each.pieces) for each in document.segments]
    kept = [each.text for each in document.kept]
    for value, is_key in strings(tree):
        if has_letters(value):
            assert value in kept if is_key else value in kept or all(word in "".join(read) for word in value.split())
    translate(document, lambda text: text[::-1])
    assert [is_key for _, is_key in strings(json.loads(document.content()))] == [key for _, key in strings(tree)]


def test_files_of_installed_packages():
    files = installed("**/*.json")[:40]
    if not files:
        pytest.skip("no installed package has a .json file")
    for path in files:
        document = opened("json", path.read_bytes())
        assert document.content() == path.read_bytes(), path
        translate(document)
        old, new = strings(json.loads(path.read_bytes())), strings(json.loads(document.content()))
        kept = {each.text for each in document.kept if each.reason != "keys"}
        for (before, is_key), (after, _) in zip(old, new, strict=True):
            if is_key or before in kept or not has_letters(before):
                assert after == before
            else:
                assert "".join(after.split()) == "".join(before.upper().split()), path


def test_a_value_is_written_whole_or_not():
    document = opened("json", '{"a": "One.\\n\\nTwo."}')
    first, second = document.segments
    first.translated = ["ONE."]
    assert json.loads(document.content()) == {"a": "One.\n\nTwo."}
    assert first.translated is None
    first.translated, second.translated = ["ONE."], ["TWO."]
    assert json.loads(document.content()) == {"a": "ONE.\n\nTWO."}
