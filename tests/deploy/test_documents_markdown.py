"""Markdown as documents: text is translated; markup, code, targets and the form of the file stay."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from posnmt.base.errors import UserError
from posnmt.deploy.documents.segment import has_letters
from tests.support.document_case import installed, opened, shouted, texts, translate

PAGE = """---
title: front
---
# The *big* cat #

A [dog](http://a.example/b "a title") and `code` sleep.
The ![small *cat*](cat.png) hunts **mice**,  
at https://a.example/c_d or <http://a.example/e>.

Sub title
---------

1. one
   * [x] two &amp; \\*three\\*

     > deep
     > quote [ref] and [other][ref]

| Head | b \\| c |
|------|:------:|
| cell `x\\|y` | ~~old~~ |
| `p\\|q` r |

```python
print("text")
```

    indented code

<div align="center">block <b>text</b></div>

Inline <b>bold</b>, <kbd>Ctrl</kbd><br>and <img src=x alt="a picture">.

Note[^1] this.

[^1]: Footnote

::: tip A tip
Inside.
:::

[ref]: http://a.example/f "named"
***
"""  # noqa: W291
SEGMENTS = [
    (4, "The *big* cat"),
    (6, "A *dog* and * sleep.*The * hunts *mice*,*at https://a.example/c_d or *."),
    (7, "small *cat*"),
    (10, "Sub title"),
    (13, "one"),
    (14, "* two & *three*"),
    (16, "deep*quote *ref* and *other*"),
    (19, "Head"),
    (19, "b | c"),
    (21, "cell *"),
    (21, "*old*"),
    (22, "* r"),
    (32, "Inline *bold*, **and *."),
    (34, "Note* this."),
    (36, "* Footnote"),
]
INSIDE = "code, addresses and marks"
KEPT = [
    (1, "---\ntitle: front\n---", "front matter"),
    (6, "a title", "titles of links"),
    (6, "`code`", INSIDE),
    (8, "<http://a.example/e>", INSIDE),
    (14, "[x]", INSIDE),
    (21, "`x|y`", INSIDE),
    (22, "`p|q`", INSIDE),
    (24, 'print("text")', "pieces of code"),
    (28, "indented code", "pieces of code"),
    (30, "block text", "HTML"),
    (32, "<kbd>Ctrl</kbd>", INSIDE),
    (32, "a picture", "HTML"),
    (38, "::: tip A tip\nInside.\n:::", "directives"),
    (42, "named", "titles of links"),
]
CHANGES = [
    ("The *big* cat", "THE *BIG* CAT"), ("A [dog]", "A [DOG]"), ("sleep.\nThe", "SLEEP.\nTHE"),
    ("and `code`", "AND `code`"), ("small *cat*", "SMALL *CAT*"), ("hunts **mice**", "HUNTS **MICE**"),
    ("\nat https://a.example/c_d or", "\nAT HTTPS://A.EXAMPLE/C_D OR"), ("Sub title", "SUB TITLE"), ("one\n", "ONE\n"),
    ("two &amp; \\*three\\*", "TWO & \\*THREE\\*"), ("deep", "DEEP"),
    ("quote [ref] and [other]", "QUOTE [REF][ref] AND [OTHER]"), ("Head", "HEAD"), ("b \\| c", "B \\| C"),
    ("cell", "CELL"), ("~~old~~", "~~OLD~~"), ("` r", "` R"), ("Inline <b>bold", "INLINE <b>BOLD"),
    ("<br>and", "<br>AND"), ("Note[^1] this", "NOTE[^1] THIS"), ("Footnote", "FOOTNOTE"),
]  # fmt: skip


class Rendered(HTMLParser):
    """The tags of a rendered page with the code in it, and its other text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._code = [], "", 0
        self.feed(MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"]).render(text))

    def handle_starttag(self, tag, attrs):
        shown = [(name, value) for name, value in attrs if name != "alt"]
        self.text += "".join(f" {value} " for name, value in attrs if name == "alt") or " " * (tag in ("br", "td", "p"))
        self.tags.append((tag, shown))
        self._code += tag in ("code", "pre")

    def handle_endtag(self, tag):
        self.tags.append(tag)
        self._code -= tag in ("code", "pre")

    def handle_data(self, data):
        if self._code:
            self.tags.append(data)
        else:
            self.text += data


def words(text):
    return set(re.findall(r"[^\W\d_]+", text))


def test_text_is_translated_and_all_else_stays():
    document = opened("markdown", PAGE)
    assert document.content().decode() == PAGE
    assert texts(document) == SEGMENTS
    assert [(each.line, each.text, each.reason) for each in document.kept] == KEPT
    translate(document)
    expected = PAGE
    for old, new in CHANGES:
        assert expected.count(old) == 1, old
        expected = expected.replace(old, new)
    assert document.content().decode() == expected


@pytest.mark.parametrize("text", ["\ufeff" + PAGE, PAGE.replace("\n", "\r\n"), PAGE.replace("\n", "\r")])
def test_marks_and_line_ends_stay(text):
    document = opened("markdown", text)
    assert document.content().decode() == text
    assert [each for _, each in texts(document)] == [each for _, each in SEGMENTS]
    new = shouted("markdown", text)
    for end in ("\r\n", "\r"):
        new = new.replace(end, "\n")
    assert new.removeprefix("\ufeff") == shouted("markdown", PAGE)


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("a", "x", "x"),
        ("a", "- x", "\\- x"),
        ("a", "1. x", "1\\. x"),
        ("a", "# x", "\\# x"),
        ("a", "> x", "\\> x"),
        ("a", "x * y_z 1*2", "x * y_z 1*2"),
        ("a", "x *y* z", "x \\*y\\* z"),
        ("a", "<b>", "\\<b>"),
        ("a", "x < y & z", "x < y & z"),
        ("a", "&amp; x", "\\&amp; x"),
        ("a", "`x`", "\\`x\\`"),
        ("a", "[x](y)", "\\[x\\](y)"),
        ("a", "*x* www.a.b/~c_d#e?f&g", "\\*x\\* www.a.b/~c_d#e?f&g"),
        ("a", "~~x~~ _y_ #", "\\~\\~x\\~\\~ \\_y\\_ \\#"),
        ("a", "[x] \\[", "\\[x\\] \\\\\\["),
        ("[r]: b\n\na [x][r]", "[r] x", "[r]: b\n\n\\[r\\] [x][r]"),
        ("# a", "x #", "# x \\#"),
        ("|a|\n|-|", "x|y", "|x\\|y|\n|-|"),
        ("![a](b)", "x]", "![x\\]](b)"),
        ("**a** b", "「x」y", "<strong>「x」</strong>y"),
        ("_a_ b", "xy", "<em>x</em>y"),
    ],
)  # fmt: skip
def test_a_translation_is_never_markup(text, translation, expected):
    """It is escaped, or emphasis is HTML, only where the plain form would be read otherwise."""
    document = opened("markdown", text)
    [segment] = [each for each in document.segments if each.has_letters]
    old = [each for each in segment.pieces if isinstance(each, str) and has_letters(each)]
    if text.startswith(("**", "_")):
        opening, _, closing, _ = [each for each in segment.pieces if each != ""]
        segment.translated = [opening, translation[:-1], closing, translation[-1]]
    elif len(old) > 1:
        segment.translated = [translation[:4], *[each for each in segment.pieces if each != ""][1:]]
    else:
        segment.translated = [translation]
    assert document.content().decode() == expected
    assert document.notes == []


def test_a_translation_that_cannot_be_written_is_left_and_counted():
    document = opened("markdown", "See **a** b [c](d).\n\nMore.\n\nNo.")
    first, second, third = document.segments
    tags = [each for each in first.pieces if not isinstance(each, str)]
    first.translated, second.translated, third.translated = [*reversed(tags), " x"], ["Y."], []
    assert document.content().decode() == "See **a** b [c](d).\n\nY.\n\nNo."
    assert document.notes[-1].startswith("2 texts are left as they are")
    assert [each.translated for each in document.segments] == [None, ["Y."], None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]\n\n[a]: b", "[A][a]\n\n[a]: b"),
        ("[*a\n b*][]\n\n[*a b*]: c", "[*A\n B*][*a b*]\n\n[*a b*]: c"),
        ("![a]\n\n[a]: b", "![A][a]\n\n[a]: b"),
        ("> ![a](b 'c')\\\n> [![d][e]](f)  \n> g\n\n[e]: h", "> ![A](b 'c')\\\n> [![D][e]](f)  \n> G\n\n[e]: h"),
        ("|![a|\n|-|\n|![b](c)|", "|![A|\n|-|\n|![B](c)|"),
        ("|a|![a](a)|a|\n|-|-|-|", "|A|![A](a)|A|\n|-|-|-|"),
        ("![](a) ![1](b)", "![](a) ![1](b)"),
    ],
)  # fmt: skip
def test_links_and_pictures_keep_their_targets(text, expected):
    """A text that named its reference is followed by that name."""
    assert shouted("markdown", text) == expected


@pytest.mark.parametrize(
    ("text", "sources", "kept"),
    [
        ("---\n\ntext\n\n---\n", ["text"], []),
        ("---\na: b\n---\ntext", ["text"], ["front matter"]),
        ("+++\na = 'b'\n+++\ntext", ["text"], ["front matter"]),
        ("* * *\n- a\n\n  b\n", ["a", "b"], []),
        ("> [!NOTE]\n> text", ["**text"], [INSIDE]),
        ("- [ ] text", ["* text"], []),
        ("[^a]: text", ["* text"], [INSIDE]),
        ("[a]: text", [], []),
        ("text {#name .class}", ["text *"], [INSIDE]),
        ("a {{ b }} c {% d %}", ["a * c *"], [INSIDE, INSIDE]),
        ("<code>a *b*</code> c", ["* c"], [INSIDE]),
        ("<code>a b c", ["*a b c"], []),
        ("<!-- a -->\n\n<br/>\n", [], []),
        ("<p>a\n\nb</p>", ["b*"], ["HTML"]),
        ("|a|\n|-|\n|b|c|", ["a", "b"], ["lines that are not read as text"]),
        ("> " * 120 + "a", [], ["lines that are not read as text"]),
        ('!!! note "A"\n    b', [], ["directives"]),
        ("::: a\n\nb\n\n:::", ["b"], ["directives"]),
        ("|::: a|b|\n|-|-|", ["::: a", "b"], []),
        ("<kbd>a <kbd>b</kbd> [^c][d]\n\n[d]: e", ["*a * *^c*"], [INSIDE]),
        ("a ``b ` c`` `` d", ["a * `` d"], [INSIDE]),
        ("[a](b\n'c')\nd `e`", ["*a**d *"], ["titles of links", INSIDE]),
        ("", [], []),
    ],
)
def test_what_is_text(text, sources, kept):
    document = opened("markdown", text)
    assert document.content().decode() == text
    assert [each for _, each in texts(document)] == sources
    assert [each.reason for each in document.kept] == kept


def test_a_nul_character():
    with pytest.raises(UserError, match=r"a NUL character \(page:2\); remove it"):
        opened("markdown", "a\nb\0")
    with pytest.raises(UserError, match=r"not valid utf-8: byte 0xFF \(page:2\)"):
        opened("markdown", b"a\nb\xff")


def check(text):
    """The form of a document and of its translation, compared by what a page of it has."""
    document = opened("markdown", text)
    assert document.content() == (text if isinstance(text, bytes) else text.encode())
    translate(document)
    new = document.content().decode()
    return document, Rendered(text.decode() if isinstance(text, bytes) else text), Rendered(new)


def test_files_of_installed_packages():
    """Those whose descriptions are Markdown, without what stands before it; each word is translated or counted."""
    paths = [each for each in installed("*/METADATA") if b"text/markdown" in each.read_bytes()][:60]
    assert paths
    for path in paths:
        text = path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n", 1)[1].decode()
        document, old, new = check(text)
        read = [piece for each in document.segments for piece in each.pieces if isinstance(piece, str)]
        read += [each.text for each in document.kept]
        missing = words(re.sub(r"https?://\S+|www\.\S+|\{[^{}]*\}|\[![A-Z]+\]", "", old.text)) - words(" ".join(read))
        assert not missing, path
        assert document.notes == [], path
        assert new.tags == old.tags, path


PIECES = st.sampled_from(
    ["a", "word", " ", "  ", "\n", "\n\n", "*", "**", "_", "`", "``", "[", "]", "(", ")", "![", "](b)", "[r]", "<b>",
     "</b>", "<kbd>", "</kbd>", "|", "|-|\n", "\n|a|b|\n|-|-|\n|", "# ", "> ", "- ", "1. ", "    ", "\t", "```", "~~",
     "\\", "&amp;", "<http://x>", "https://a.b/c", "[r]: b 'c'\n", "---\n", "===\n", "\r\n", "[^1]", "<!--",
     "-->", "日本。", "{{", "}}", "\u00a0", "\u2028", "\x0b", "!"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_text(text):
    """Whatever it is, the translation has the same structure."""
    document, old, new = check(text)
    assert [each for each in new.tags if each != "br"] == [each for each in old.tags if each != "br"] or document.notes


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ('The <b translate="no">verbose</b> one.\n\nTwo.\n', ["Two."]),
        ('See <span class="a notranslate">Display</span>.\n\nTwo.\n', ["Two."]),
        ('<div translate="no">\n\nKeep me.\n\n- And me.\n\n</div>\n\nTwo.\n', ["Two."]),
        ("A <script>var words</script> one.\n\nTwo.\n", ["Two."]),
        ('<p translate="no">Kept</p>\n\nTwo.\n', ["Two."]),
        ('Say `<b translate="no">` here.\n', ["Say  here."]),
    ],
)
def test_html_that_is_not_translated_stays_with_its_block(text, sources):
    document = opened("markdown", text)
    read = ["".join(each for each in segment.pieces if isinstance(each, str)) for segment in document.segments]
    assert read == sources
    translate(document)
    kept = text.replace("Two", "TWO").replace("Say", "SAY").replace("here", "HERE")
    assert document.content().decode() == kept
