"""Hypothesis strategies for files that are nearly right: a valid file with one to three edits.

Trees (YAML and JSON) are edited by keys and values, text by lines, anything else by bytes. After the edits of a tree
its text is sometimes edited by bytes too, so that the syntax is damaged as well as the content.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from hypothesis import strategies as st

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
"""Eleven lines of YAML that would be 9^12 nodes if every alias were a copy."""

NUMBERS = [
    0, 1, 2, 3, -1, -(2**63), 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 10**400,
    0.0, -0.0, 0.5, 0.999, 1.0, 1.5, -0.5, 1e-320, 1e308, -1e308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
STRINGS = [
    "", " ", "\t", "\0", "a\0b", "a\nb", "a\rb", "\u2028", "\ufeff", "é", "日本語", "\U0001f600", "\ud800", "\u202e",
    ".", "..", "../..", "/", "/nowhere/at/all", "~", "~nobody-at-all/x", "x" * 300, "x" * 5000, "a/" * 3000,
    "${HOME", "${UNSET_IN_FUZZING}", "${UNSET_IN_FUZZING:-}", "${}", "%s", "{source}", "{0}", "{", "--out", "-1",
    "1e5",
    "1e999", "nan", "inf", "null", "true", "0x10", "1_000", "٣", "²", "2001-01-01", "2020-13-45", "en", "EN-de",
    "a-b-c",
    "http://", "http://[", "http://[::1", "http://x:y/z", "http://x:99999/z", "https://a@b/c", "http://é.example/é",
    "file:///etc/passwd", "http://x/\0", "relative", "transformer", "a.b.c", "a=b", "=", ":", "a:b=c", "*", "[", "\\",
]  # fmt: skip
NESTED: list[Any] = [None, True, False, [], {}, [[]], [None], {"a": 1}, {"": None}, {"a": {"b": {"c": []}}}, [1, "a"]]
YAML_TEXTS = [
    "2020-13-45", "2020-02-30", "2001-01-01 99:99:99", "2001-01-01T00:00:00+99:99", "0001-01-01T00:00:00+23:00",
    "!!timestamp x", "!!int x", "!!int ''", "!!int '-'", "!!float .", "!!float ''", "!!bool x", "!!binary é",
    "!!binary x", "!!null x",
    "!!python/object:os.system x", "!!python/name:os.system", "!nothing x", "!!set {a, b}", "!!omap [a: 1]",
    "!!omap x",
    "!!pairs [a: 1]", "!!pairs [[a]]", "!!map []", "!!seq {}", "!!str {}", "{? [a] : b}", "{? {a: b} : c}",
    "{<<: 1}", "{<<: [1]}",
    "{<<: [{a: 1}, {a: 2}]}", "{<<: *a}", "{=: 1}", "&a [*a]", "&a {b: *a}", "0x", "0b2", "0o9", "08", "1:99:99",
    "1e", "+", "-",
    "190:20:30", "9" * 5000, "0x" + "f" * 5000, "[" * 2000, "{a: " * 500, "- " * 500, '"\\ud800"', '"\\x00"',
    '"\\U00110000"',
    '"\\UFFFFFFFF"', '"', "'", "|", ">", "|9", "%", "@", "`", "*", "&", "!", "!<", "? ", "? ?", "--- a\n--- b", "...",
    "%YAML 9.9\n---\na: 1", "%TAG ! x\n---\n!a b", "\t", "a: b: c", BOMB, "&a a: 1\nb: *a", "\ud7ff",
]  # fmt: skip
XML_TEXTS = [
    "<!DOCTYPE a [<!ENTITY b 'c'>]>", "&b;", "&#0;", "&#xD800;", "&#1114112;", "<![CDATA[", "<?xml version='1.1'?>",
    "<?xml version='1.0' encoding='utf-16'?>", "<?xml version='1.0' encoding='nonsense'?>",
    "<?xml version='1.0' encoding='shift_jis'?>",
    "<?xml version='1.0' encoding='utf-7'?>", "<?xml version='1.0' encoding='idna'?>",
    "<?xml version='1.0' encoding='zlib'?>",
    "<?xml version='1.0' encoding='ucs-4'?>", "<?xml version='1.0' encoding='cp037'?>", "<a:b/>", "<tu/>",
    "<tu><tuv/></tu>",
    "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>", "<seg>", "</seg>", "<!--", "<" * 3000, "<a>" * 3000,
]  # fmt: skip
BYTES = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b"\t", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80",
    b"\x80",
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 8, b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\0" * 512,
    b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh9", b"PK\x03\x04", b"PK\x05\x06", b"ARROW1", b" ", b'"', b"{", b"}", b"[",
    b"]", b",", b":",
    b"-", b"1", b"999999999999", b"NaN", b"Infinity", b"1e999", b"\\u0000", b"\\ud800", b"[" * 5000,
    b'{"a":' * 5000, b"9" * 5000,
]  # fmt: skip

numbers = st.sampled_from(NUMBERS) | st.integers(-100, 100_000)
scalars = numbers | st.sampled_from(STRINGS) | st.sampled_from(NESTED) | st.text(max_size=6)


def byte_edits(content: bytes, snippets: list[bytes] = BYTES) -> st.SearchStrategy[bytes]:
    """The content with one to three edits: bytes changed, put in, taken out, repeated, or cut off."""
    return st.lists(_edit(snippets), min_size=1, max_size=3).map(lambda edits: _edited(content, edits))


def _edit(snippets: list[bytes]) -> st.SearchStrategy[tuple[int, str, int, bytes]]:
    """Place (of 2^20), kind, length and bytes of an edit."""
    piece = st.sampled_from(snippets) | st.binary(max_size=8)
    kinds = st.sampled_from(["put", "put", "over", "over", "flip", "out", "again", "cut"])
    return st.tuples(st.integers(0, 2**20 - 1), kinds, st.integers(0, 64), piece)


def _edited(content: bytes, edits: list[tuple[int, str, int, bytes]]) -> bytes:
    for place, kind, length, piece in edits:
        at = place * (len(content) + 1) >> 20
        match kind:
            case "put":
                content = content[:at] + piece + content[at:]
            case "over":
                content = content[:at] + piece + content[at + len(piece) :]
            case "flip" if at < len(content):
                content = content[:at] + bytes([content[at] ^ (1 << length % 8)]) + content[at + 1 :]
            case "out":
                content = content[:at] + content[at + length :]
            case "again":
                content = content[: at + length] + content[at:]
            case "cut":
                content = content[:at]
    return content


def text_edits(content: bytes, texts: list[str]) -> st.SearchStrategy[bytes]:
    """As `byte_edits`, with pieces of a language put in."""
    return byte_edits(content, [text.encode("utf-8", "surrogatepass") for text in texts] + BYTES)


def json_edits(content: bytes) -> st.SearchStrategy[bytes]:
    """JSON: edits of the tree, of the text, or of both."""
    return _tree_edits(json.loads(content), content, lambda tree: json.dumps(tree).encode(), [])


def yaml_edits(content: bytes) -> st.SearchStrategy[bytes]:
    """YAML: edits of the tree, of the text, or of both."""
    return _tree_edits(yaml.safe_load(content), content, _as_yaml, YAML_TEXTS)


def _as_yaml(tree: Any) -> bytes:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


@st.composite
def _tree_edits(draw: st.DrawFn, tree: Any, content: bytes, write: Any, texts: list[str]) -> bytes:
    if draw(st.integers(0, 3)) == 0:
        return draw(text_edits(content, texts))
    tree = copy.deepcopy(tree)
    raw: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        value = draw(scalars)
        if texts and draw(st.integers(0, 3)) == 0:
            raw.append(draw(st.sampled_from(texts)).encode("utf-8", "surrogatepass"))
            value = f"RAW{len(raw) - 1}"
        tree = _changed(tree, draw(st.integers(0, 10**6)), draw(st.integers(0, 7)), value)
    written = write(tree)
    for number, text in enumerate(raw):
        written = written.replace(f"RAW{number}".encode(), text)
    return draw(text_edits(written, texts)) if draw(st.integers(0, 7)) == 0 else written


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Container and key of every value in a tree."""
    below = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [place for key, value in below for place in [(tree, key), *_places(value)]]


def _changed(tree: Any, number: int, kind: int, value: Any) -> Any:
    """The tree, changed in place where it is possible: a value replaced, removed, wrapped, repeated, or renamed."""
    places, value = _places(tree), copy.deepcopy(value)
    if not places or number % 997 == 0:
        return value
    container, key = places[number % len(places)]
    if kind == 0:
        del container[key]
    elif kind == 1:
        container[key] = [container[key]]
    elif kind == 2:
        container[key] = {str(value)[:20]: container[key]}
    elif kind == 3 and isinstance(container, dict):
        container[value if isinstance(value, str | int | float | None) else str(value)] = container.pop(key)
    elif kind == 3:
        container.append(container[key])
    elif kind == 4:
        other, name = places[(number // 7) % len(places)]
        container[key] = copy.deepcopy(other[name])
    else:
        container[key] = value
    return tree
