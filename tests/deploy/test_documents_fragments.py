"""Parts of XML documents, of pages and of plain text, with a caller's wishes about tags and line ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from posnmt.base.errors import UserError
from posnmt.deploy.documents.fragments import parse_text, parse_xml
from posnmt.deploy.documents.markup import MOST_LEVELS, parse_html
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import TagRules, divide, join

NAME = Path("text")


def shout(document, whole=False):
    """What the model reads, and the document with everything in upper case."""
    read = []
    for segment in document.segments:
        parts = divide(segment, "en", whole)
        read += [part.text for part in parts]
        segment.translated = join(parts, [part.place(part.text.upper()) for part in parts])
    return read, document.content().decode()


def html(text, **rules):
    return parse_html(Text(text, "utf-8"), NAME, TagRules(**{name: frozenset(each) for name, each in rules.items()}))


def xml(text, detects=True, lines=False, **rules):
    named = {name: frozenset(each) for name, each in rules.items()}
    return parse_xml(text, NAME, TagRules(**named, detects=detects, lines=lines))


STRUCTURED = "<doc>\n <title>A name</title>\n <par>The <i>dog</i> sees birds. They sing.</par>\n</doc>"


@pytest.mark.parametrize(
    ("text", "rules", "read"),
    [
        (STRUCTURED, {}, ["A name", "The dog sees birds.", "They sing."]),
        (
            STRUCTURED,
            {"detects": False, "splitting": ["title", "par"]},
            ["A name", "The dog sees birds.", "They sing."],
        ),
        (STRUCTURED, {"detects": False}, ["A name The dog sees birds.", "They sing."]),
        (STRUCTURED, {"splitting": ["i"]}, ["A name", "The", "dog", "sees birds.", "They sing."]),
        (STRUCTURED, {"ignored": ["i"]}, ["A name", "The sees birds.", "They sing."]),
        (STRUCTURED, {"ignored": ["par"]}, ["A name"]),
        ("<p>a dog</p><p> and it</p>", {}, ["a dog", "and it"]),
        ("<p>a dog</p><p> and it</p>", {"joining": ["p"]}, ["a dog and it"]),
        ("<p>a dog</p> here", {}, ["a dog here"]),
        ("<g><p>a dog</p></g> here", {}, ["a dog here"]),
        ("<g><p>a dog</p> here</g>", {}, ["a dog here"]),
        ("a dog\nhere", {"lines": True}, ["a dog", "here"]),
        ("a dog\nhere", {}, ["a dog here"]),
        ("a <![CDATA[<dog>\nhere]]>", {"lines": True}, ["a <dog> here"]),
        ("a &amp; b&#233; &eacute; &unknown;", {}, ["a & bé é"]),
        ("<x:p xml:id='>'>a dog</x:p>", {}, ["a dog"]),
    ],
)
def test_what_is_a_sentence_of_xml(text, rules, read):
    assert xml(text, **rules).content().decode() == text
    seen, written = shout(xml(text, **rules))
    assert seen == read
    kinds = r"</?\w(?:[^>']|'[^']*')*>|&unknown;"
    assert re.findall(kinds, written) == re.findall(kinds, text.replace("<dog>", ""))


@pytest.mark.parametrize(
    ("text", "rules", "written"),
    [
        ("a &amp; b &lt; c &unknown;", {}, "A &amp; B &lt; C &unknown;"),
        ("oat\nbiscuits", {}, "OAT\nBISCUITS"),
        ("see <x>a &amp;\n<b>dog</b> </x>!", {"ignored": ["x"]}, "SEE <x>a &amp;\n<b>dog</b> </x>!"),
        ("see <x/> it", {"ignored": ["x"]}, "SEE <x/> IT"),
        ('see <x id="1"></x>, it', {"ignored": ["x"]}, 'SEE <x id="1"></x>, IT'),
        ("<x>a <x>b</x> c</x> d", {"ignored": ["x"]}, "<x>a <x>b</x> c</x> D"),
        ("<r><x>a</x><y>b</y></r>", {"ignored": ["x"]}, "<r><x>a</x><y>B</y></r>"),
        ("a <!-- no --> dog<?no it?>", {}, "A <!-- no --> DOG<?no it?>"),
        ('<?xml version="1.0"?><a>dog</a>', {}, '<?xml version="1.0"?><a>DOG</a>'),
    ],
)
def test_what_is_written_of_xml(text, rules, written):
    assert shout(xml(text, **rules))[1] == written


@pytest.mark.parametrize(
    "text",
    [
        "<a>",
        "</a>",
        "</_><_>",
        "a & b",
        "a < b",
        "<a b=c>d</a>",
        "<a></b>",
        "<!DOCTYPE a><a/>",
        "a\0b",
        "\ud800",
        "&#0;",
    ],
)
def test_xml_that_is_not_well_formed(text):
    with pytest.raises(UserError, match=r"^not well-formed XML: .*\(text(:1)?\); "):
        xml(text)


def test_nesting_is_bounded():
    assert xml("<a>" * (MOST_LEVELS - 1) + "dog" + "</a>" * (MOST_LEVELS - 1)).segments
    with pytest.raises(UserError, match="are nested"):
        xml("<a>" * MOST_LEVELS + "dog" + "</a>" * MOST_LEVELS)


ELEMENTS = st.recursive(
    st.sampled_from(["a dog", " ", "\n", "&amp;", "No. ", "<x/>", "<!--c-->", "&no;", "<![CDATA[<]]>", "7"]),
    lambda inner: st.tuples(st.sampled_from("bxp"), st.lists(inner, max_size=4)).map(
        lambda made: f"<{made[0]}>{''.join(made[1])}</{made[0]}>"
    ),
)


@given(st.lists(ELEMENTS, max_size=5).map("".join), st.booleans(), st.booleans(), st.booleans())
def test_xml_stays_xml(text, detects, lines, splits):
    """Nothing changes but text: tags stay in their order, ignored elements stay whole, and it stays well-formed."""
    rules = {"detects": detects, "lines": lines, "ignored": ["x"], "splitting": ["p"] * splits}
    assert xml(text, **rules).content().decode() == text
    written = shout(xml(text, **rules))[1]
    tags = r"</?[bxp]/?>|<!--c-->|&no;"
    assert re.findall(tags, written) == re.findall(tags, text)
    before, after = (etree.fromstring(f"<r>{each.replace('&no;', '')}</r>") for each in (text, written))
    kept = [[etree.tostring(each, with_tail=False) for each in tree.iter("x")] for tree in (before, after)]
    assert kept[0] == kept[1]
    assert written.count("\n") == text.count("\n")
    outside = ["".join(tree.xpath("//text()[not(ancestor::x)]")) for tree in (before, after)]
    assert [len(each.replace(" ", "")) for each in outside] == [len(outside[0].replace(" ", ""))] * 2
    assert "dog" not in outside[1]


@pytest.mark.parametrize(
    ("text", "rules", "written"),
    [
        ("<p>The\ndog</p>", {}, "<p>THE DOG</p>"),
        ("<p>a <x title='a dog'>b <b translate=yes>c</b></x> d", {"ignored": ["x"]}, None),
        ("<x translate=yes>b</x> d", {"ignored": ["x"]}, "<x translate=yes>b</x> D"),
        ("<pre><x>a <b translate=yes>b</b></x> <b translate=yes>b</b></pre>", {"ignored": ["x"]}, None),
    ],
)
def test_ignored_elements_of_pages_stay(text, rules, written):
    changed = shout(html(text, **rules))[1]
    kept = re.findall(r"<x.*?</x>", text)
    assert kept == re.findall(r"<x.*?</x>", changed)
    assert written in (None, changed)


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ({}, ["The dog", "sees", "it"]),
        ({"joining": ["x"]}, ["The dog sees it"]),
        ({"splitting": ["b"]}, ["The", "dog", "sees", "it"]),
    ],
)
def test_what_is_a_sentence_of_a_page(rules, read):
    assert shout(html("<p>The <b>dog</b> <x>sees</x> it", **rules))[0] == read
    text = Text("<p>The <b>dog</b> <x>sees</x> it", "utf-8")
    assert shout(parse_html(text, NAME, TagRules(detects=False)))[0] == ["The dog sees it"]


def test_lines_of_a_page():
    text = "<p>The dog\nsees\r\n\r\nit</p><pre>a\nb</pre>"
    assert shout(parse_html(Text(text, "utf-8"), NAME, TagRules(lines=True))) == (
        ["The dog", "sees", "it"],
        "<p>THE DOG\nSEES\r\n\r\nIT</p><pre>a\nb</pre>",
    )


def test_line_ends_of_plain_text():
    text = " The dog\n sees birds. They\r\n\r\n <all> sing &c.\n"
    upper = text.upper()
    assert shout(parse_text(text, lines=False)) == (["The dog sees birds.", "They <all> sing &c."], upper)
    assert shout(parse_text(text, lines=False), whole=True) == (["The dog sees birds. They <all> sing &c."], upper)
    assert shout(parse_text(text, lines=True))[0] == ["The dog", "sees birds.", "They", "<all> sing &c."]
    assert shout(parse_text(text, lines=True))[1] == upper
