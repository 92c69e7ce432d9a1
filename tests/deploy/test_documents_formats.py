"""Formats of documents: what is text is found, and everything else is written as it was read."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from posnmt.base.errors import UserError
from posnmt.deploy.documents.formats import format_of, read
from posnmt.deploy.documents.markup import Tokens
from posnmt.deploy.documents.segment import Tag, divide, has_letters, join

PAIR = ("en", "de")


def opened(form, text, encoding="utf-8", languages=PAIR):
    return read(form, text if isinstance(text, bytes) else text.encode(encoding), "page", languages)


def texts(document):
    """Line and text of each segment, tags as `*`."""
    return [
        (each.line, "".join("*" if isinstance(piece, Tag) else piece for piece in each.pieces).strip())
        for each in document.segments
    ]


def ledger(document):
    """Line, text and reason of what is not translated."""
    return [(each.line, each.text, each.reason) for each in document.kept]


def shouted(form, text, encoding="utf-8"):
    """The document with its text in capitals, an ampersand after each piece of text."""
    document = opened(form, text, encoding)
    for segment in document.segments:
        segment.translated = [x if isinstance(x, Tag) else x.upper() + "&" for x in segment.pieces]
    return document.content().decode(encoding)


def translated(form, text, *translations):
    """The document with translations of its sentences, and the sentences; without any: each is its own."""
    document = opened(form, text)
    divided = [(each, divide(each, "en")) for each in document.segments if each.has_letters]
    wholes = [part.text for _, parts in divided for part in parts if has_letters(part.text)]
    left = iter(translations or wholes)
    for segment, parts in divided:
        segment.translated = join(parts, [each.place(next(left) if has_letters(each.text) else "") for each in parts])
    assert not [*left]
    return document.content().decode(), wholes


PAGE = """<!DOCTYPE html>
<html lang=en><head><meta charset="utf-8"><title>a title</title><style>p > b { color: red }</style></head>
<body class='x'  data-y="a &gt; b"><!-- a comment <p> -->
<P   ID=one>first <b>bold</b> <a href="x?a=1&b=2">link</A>, caf&eacute; &amp; more<br/>second line
<ul><li>item<li><code>x &lt; y</code> means less</ul>
<script>if (a < b && c) { write("<p>not text</p>") }</script>
<p translate="no">kept <p>next <img src=x alt="a picture"> here</p> 12 &mdash; 13 <hr>
<pre>also <b>kept</b></pre><svg><g/><text>kept</text></svg>
<p class="notranslate">kept <span>too</span></p></body></html>
"""


def test_html_is_written_as_it_was_read():
    document = opened("html", PAGE)
    assert document.content().decode() == PAGE
    assert texts(document) == [
        (2, "a title"),
        (4, "first *bold* *link*, café & more"),
        (4, "second line"),
        (5, "item"),
        (5, "* means less"),
        (7, "next * here"),
        (7, "a picture"),
    ]
    assert ledger(document) == [
        (2, "p > b { color: red }", "<style>"),
        (3, "a > b", "data-*"),
        (5, "x < y", "<code>"),
        (6, 'if (a < b && c) { write("<p>not text</p>") }', "<script>"),
        (7, "kept", 'translate="no"'),
        (8, "also kept", "<pre>"),
        (8, "kept", "<svg>"),
        (9, "kept too", 'class="notranslate"'),
    ]
    changed = shouted("html", PAGE)
    assert 'FIRST &amp;<b>BOLD&amp;</b> &amp;<a href="x?a=1&b=2">LINK&amp;</A>, CAF' in changed
    assert "<br/>SECOND LINE\n&amp;<ul><li>ITEM&amp;<li><code>x &lt; y</code> MEANS LESS&amp;</ul>" in changed
    for kept in (
        "<style>p > b { color: red }</style>",
        "<!-- a comment <p> -->",
        'write("<p>not text</p>")',
        "kept <span>",
    ):
        assert kept in changed


@pytest.mark.parametrize(
    "page", ["", "text", "<", "a < b", "<p", "<p>a</b></p></p>", "&", "<b>x", "<code>x", "<!--", "</"]
)
def test_broken_pages_stay(page):
    assert opened("html", page).content().decode() == page


@pytest.mark.parametrize(
    ("page", "encoding"),
    [('<meta charset="latin-1"><p>é', "latin-1"), ("\ufeff<p>é", "utf-16-le"), ("\ufeffé", "utf-16-be")],
)
def test_pages_keep_their_encoding(page, encoding):
    document = opened("html", page, encoding)
    [segment] = document.segments
    segment.translated = ["é€"]
    euro = "&#8364;" if encoding == "latin-1" else "€"
    assert document.content() == page.replace("é", "é" + euro).encode(encoding)


@pytest.mark.parametrize(
    "page",
    [
        "<p>The <code>foo</code> cat sees the <kbd>x</kbd> dog.</p>",
        "<p>See <a><code>foo</code></a> here, <b>see <img src=a></b> there.</p>",
        "<p>A <i class=icon></i> cat <!-- x --> and (<var>y</var> or <samp>z</samp>).</p>",
        "<nav><a>Cat</a><a>Dog</a><a><i class=icon></i>House</a></nav>",
        "<p><span>1</span><span>The house</span></p>",
        "<p>H<sub>2</sub>O is <b>un</b>able, foo<sup>2</sup> bar.</p>",
        "<p>Super<wbr>cali<b><wbr>fragi</b>listic, 10\u00a0km and\u00a0so on.",
        "<p><ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby> or <ruby>漢字<rp>(</rp><rt>kanji</rt><rp>)</rp></ruby>.",
        "<p>A cat.<sup><a>[1]</a></sup> A dog<sup>a</sup>, 10<sup>6</sup> cats; <sup>*</sup> note 1<sup>st</sup></p>",
    ],
)
def test_a_page_whose_text_stays(page):
    assert translated("html", page)[0] == page


def test_blanks_beside_what_is_not_translated():
    page = "<p>The <code>foo</code> cat sees the <kbd>x</kbd> dog.</p>"
    new, _ = translated("html", page, "Das katze sieht das hund.")
    assert new == "<p>Das <code>foo</code> katze sieht das <kbd>x</kbd> hund.</p>"


def test_marks_of_notes_are_not_translated():
    page = "<p>A cat.<sup><a>[1]</a></sup> A dog<sup>a</sup> is 5 m<sup>2</sup>."
    new, sentences = translated("html", page, "Eine Katze.", "Der Hund hat 5 m.")
    assert sentences == ["A cat.", "A dog is 5 m."]
    assert new == "<p>Eine Katze.<sup><a>[1]</a></sup> Der Hund<sup>a</sup> hat 5 m<sup>2</sup>."
    words = "<p>A dog<sup>a, b</sup>, the 1<sup>st</sup>, <sup>14</sup>C, <sup>1</sup>/<sub>2</sub> of CO<sub>2</sub>"
    assert translated("html", words)[1] == ["A doga, b, the 1st, 14C, 1/2 of CO2"]
    assert translated("html", "<p>x<sup>1<sup>2</sup> cats and dogs")[1] == ["x1 cats and dogs"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_srt(end):
    text = end.join(
        ["\ufeff1", "00:00:01,000 --> 00:00:02,500", "one <i>two</i>", "{\\an8}three & four", "", "2",
         "00:00:03,000 --> 00:00:04,000 X1:1", "- a", "- b", "", "after a blank line", "7", "", "3",
         "00:00:05,000 --> 00:00:06,000", "c"]
    )  # fmt: skip
    document = opened("srt", text)
    assert document.content().decode() == text
    assert texts(document) == [
        (3, "one *two***three & four"),
        (8, "a"),
        (9, "b"),
        (11, "after a blank line*7"),
        (16, "c"),
    ]
    assert f"{end}ONE &<i>TWO&</i>{end}{{\\an8}}THREE & FOUR&{end}{end}2{end}" in shouted("srt", text)
    assert f"- A&{end}- B&{end}" in shouted("srt", text)


def test_an_empty_line_never_ends_a_cue():
    document = opened("srt", "1\n00:00:01,000 --> 00:00:02,000\na\nb\nc\n")
    segment = document.segments[0]
    segment.translated = ["x", segment.pieces[1], segment.pieces[3]]
    assert document.content() == b"1\n00:00:01,000 --> 00:00:02,000\nx\n"


def test_vtt():
    text = (
        "WEBVTT - title\n\nSTYLE\n::cue { color: red }\n\nNOTE a note\nof two lines\n\nname\n"
        "00:01.000 --> 00:02.000 line:0\n"
        "<v Bob>one &amp; <00:01.500>two</v>\n\nNOTE after\n\n00:03.000 --> 00:04.000\nthree\n"
    )
    document = opened("vtt", text)
    assert document.content().decode() == text
    assert texts(document) == [(11, "*one & *two*"), (16, "three")]
    assert "<v Bob>ONE &amp; &amp;<00:01.500>TWO&amp;</v>\n\nNOTE after\n" in shouted("vtt", text)


def test_paragraphs():
    text = "\ufeffone line\r\n\r\n  two  \nthree"
    assert texts(opened("text", text)) == [(1, "one line"), (3, "two"), (4, "three")]
    assert shouted("text", text) == "\ufeffONE LINE&\r\n\r\n  TWO  &\nTHREE&"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_wrapped_paragraphs(end):
    text = "one two three\nfour\n \n  five\nsix seven\n".replace("\n", end)
    document = opened("wrapped", text)
    assert texts(document) == [(1, "one two three four"), (4, "five six seven")]
    document.segments[0].translated = ["eins zwei drei vier fünf sechs"]
    new = "eins zwei\ndrei vier\nfünf sechs\n \n  five\nsix seven\n"
    assert document.content().decode() == new.replace("\n", end)


def test_a_wrapped_word_of_a_script_without_blanks_is_whole():
    assert texts(opened("wrapped", "京都は昔の首\n都でした。\nPython は\n便利")) == [
        (1, "京都は昔の首都でした。Python は便利")
    ]


TMX = """<?xml version="1.0" encoding="utf-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<!-- a memory -->
<tmx version="1.4"><header srclang="en" o-tmf="x"/><body>
  <tu tuid="1"><prop type="a">b</prop>
    <tuv xml:lang="en-US"><seg>one <bpt i="1">&lt;b></bpt>two<ept i="1">&lt;/b></ept> <hi>three</hi></seg></tuv>
  </tu>
  <tu><tuv xml:lang="EN"><seg>four</seg></tuv><tuv xml:lang="de-AT"><seg>vier</seg></tuv></tu>
  <tu><tuv xml:lang="en"><seg>five</seg></tuv><tuv xml:lang="de"><seg/></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>six</seg></tuv></tu>
</body></tmx>
"""


def test_tmx_gets_the_tuvsthat_it_lacks():
    document = opened("tmx", TMX, "utf-16")
    assert texts(document) == [(6, "one *two* *three*"), (9, "five")]
    assert ledger(document) == [
        (6, "<b>", "<bpt>"),
        (6, "</b>", "<ept>"),
        (8, "four", "already translated"),
        (8, "vier", "translations"),
        (10, "six", "in units without en"),
        (5, "b", "<prop>"),
    ]
    assert document.notes == []
    written = shouted("tmx", TMX, "utf-16")
    assert '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<!-- a memory -->' in written
    tree = etree.fromstring(written.encode("utf-16"))
    targets = [each for each in tree.iter("tuv") if each.get("{http://www.w3.org/XML/1998/namespace}lang") == "de"]
    assert [etree.tostring(each.find("seg"), encoding=str).strip() for each in targets] == [
        '<seg>ONE &amp;<bpt i="1">&lt;b&gt;</bpt>TWO&amp;<ept i="1">&lt;/b&gt;</ept> &amp;<hi>THREE&amp;</hi></seg>',
        "<seg>FIVE&amp;</seg>",
    ]
    for each in targets:
        assert (each.attrib.pop("creationid"), each.attrib.pop("creationtool")) == ("MT!", "posnmt")
    targets[0].getparent().remove(targets[0])
    targets[1].find("seg").text = None
    before = etree.fromstring(TMX.encode("utf-16"))
    one, other = (b"".join(etree.tostring(each, method="c14n").split()) for each in (tree, before))
    assert one == other


def test_tmx_with_a_namespace():
    text = TMX.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ')
    assert texts(opened("tmx", text, "utf-16")) == [(6, "one *two* *three*"), (9, "five")]
    assert shouted("tmx", text, "utf-16") == shouted("tmx", TMX, "utf-16").replace(
        "<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '
    )


def test_a_memory_of_other_languages():
    with pytest.raises(UserError, match=r"none of 1 units has a text in en; its languages: fr.*--languages"):
        opened("tmx", '<tmx><body><tu><tuv xml:lang="fr"><seg>a</seg></tuv></tu></body></tmx>')


@pytest.mark.parametrize(
    ("languages", "codes", "sources", "done"),
    [
        ("en-zh_TW", "en zh-CN", "1", 0),
        ("en-zh_TW", "en zh-CN zh-tw", "", 1),
        ("en-zh_TW", "en zh", "", 1),
        ("en-zh", "en zh-CN", "", 1),
        ("sr_Latn-sr_Cyrl", "sr-Latn", "1", 0),
        ("sr_Latn-sr_Cyrl", "sr", "1", 0),
        ("sr_Latn-sr_Cyrl", "sr-Cyrl sr", "", 1),
        ("sr-sr_Cyrl", "sr-Cyrl sr-Latn", "", 1),
        ("en-de", "en-US en", "2", 0),
        ("en_GB-de", "en-US en-gb", "2", 0),
        ("deu_Latn-en", "de", "1", 0),
    ],
)
def test_tmx_tuvsby_code(languages, codes, sources, done):
    """Numbers of the texts that are translated, and how many are already."""
    tuvs = [f'<tuv xml:lang="{code}"><seg>text {at}</seg></tuv>' for at, code in enumerate(codes.split(), 1)]
    text = f"<tmx><body><tu>{''.join(tuvs)}</tu></body></tmx>"
    document = opened("tmx", text, languages=tuple(languages.split("-")))
    assert [each.pieces for each in document.segments] == [[f"text {each}"] for each in sources]
    assert [each.reason for each in document.kept].count("already translated") == done
    assert len(document.segments) + len(document.kept) == len(tuvs)
    for segment in document.segments:
        segment.translated = ["new"]
    assert document.content().decode().count("<seg>new</seg>") == len(sources)
    for each in tuvs:
        assert each in document.content().decode(), "no text that was there is another one"


def test_a_memory_of_another_region():
    with pytest.raises(UserError, match=r"none of 1 units has a text in en_GB; its languages: en-US \("):
        opened("tmx", '<tmx><tu><tuv xml:lang="en-US"><seg>a</seg></tuv></tu></tmx>', languages=("en_GB", "de"))


XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x">
<file source-language="en" original="a" datatype="html"><header><note>n</note></header><body><group id="g">
  <trans-unit id="1" x:a="b"><source xml:space="preserve">one <g id="1">two</g>
three <ph id="2">code</ph> <mrk mtype="protected">name</mrk></source><note>n</note></trans-unit>
  <trans-unit id="2"><source>four</source><target state="final">vier</target></trans-unit>
  <trans-unit id="3" translate="no"><source>five</source></trans-unit>
  <trans-unit id="4"><source>A. B.</source>
    <seg-source><mrk mtype="seg" mid="0">A.</mrk> <mrk mtype="seg" mid="1">B.</mrk></seg-source>
    <target state="new">A. B.</target></trans-unit>
</group></body></file></xliff>
"""


def test_xliff():
    document = opened("xliff", XLIFF)
    assert texts(document) == [(4, "one *two**three * *"), (9, "A."), (9, "B.")]
    assert ledger(document) == [
        (5, "code", "<ph>"),
        (5, "name", 'translate="no"'),
        (6, "four", "already translated (state final)"),
        (6, "vier", "translations"),
        (7, "five", 'translate="no"'),
        (8, "A. B.", "repeated in <seg-source>"),
        (3, "n", "<note>"),
        (5, "n", "<note>"),
    ]
    assert document.notes == []
    written = shouted("xliff", XLIFF)
    state = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    assert (
        f'<target xml:space="preserve" {state}>ONE &amp;<g id="1">TWO&amp;</g>\nTHREE &amp;<ph id="2">code</ph> &amp;'
        '<mrk mtype="protected">name</mrk></target><note>n</note>'
    ) in written
    assert (
        f'<target {state}><mrk mtype="seg" mid="0">A.&amp;</mrk> <mrk mtype="seg" mid="1">B.&amp;</mrk></target>'
        in written
    )
    assert '<source>four</source><target state="final">vier</target>' in written
    assert 'target-language="de"' in written
    assert 'xmlns:x="urn:x"' in written
    assert 'x:a="b"' in written


def test_a_new_target_keeps_the_attributes_of_the_old_one():
    old = '<target xml:lang="de-DE" resname="r" state="new">one <x id="9"/>old</target>'
    written = shouted("xliff", XLIFF.replace("</source><note>n", f"</source>{old}<note>n"))
    assert (
        '<target xml:lang="de-DE" resname="r" state="needs-review-translation" xml:space="preserve"'
        ' state-qualifier="mt-suggestion">ONE &amp;<g id="1">TWO&amp;</g>\nTHREE'
    ) in written
    assert "old" not in written


def test_a_unit_is_translated_though_a_segment_has_no_letters():
    text = """<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>1. Go. Stop.</source>
<seg-source><mrk mtype="seg"><g id="1">1.</g></mrk> <mrk mtype="seg">Go.</mrk> <mrk mtype="seg">Stop.</mrk></seg-source>
</trans-unit></body></file></xliff>"""

    def target(*translations, notes=()):
        document = opened("xliff", text)
        for segment, translation in zip(document.segments, translations, strict=True):
            segment.translated = translation
        element = etree.fromstring(document.content()).find(".//target")
        assert document.notes == [*notes]
        return element if element is None else "".join(etree.tostring(each, encoding=str) for each in element)

    marks = [f'<mrk mtype="seg">{each}</mrk>' for each in ('<g id="1">1.</g>', "Geh.", "Halt.")]
    assert target(None, ["Geh."], ["Halt."]) == " ".join(marks)
    note = "1 units are left as they are, because not all their segments are translated"
    assert target(None, None, ["Halt."], notes=[note]) is None, "a refused segment leaves its unit as it is"
    assert target(None, None, None) is None


def xliff(source):
    unit = f'<trans-unit id="1"><source>{source}</source></trans-unit>'
    return f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'


@pytest.mark.parametrize(
    "source",
    [
        'You have <x id="1"/> messages.',
        'You have <g id="1"><x id="2"/></g> messages, <ph id="3">code</ph>, and <x id="4"/>.',
        'Press <g id="1">F<g id="2">1</g></g> and <bpt id="3">b</bpt>go<ept id="3">b</ept>.',
        '<g id="1">Cat</g><g id="2">Dog</g>',
        '<g id="1">One.<x id="2"/></g> <x id="3"/> Two.',
    ],
)
def test_an_xliff_source_that_stays(source):
    new, _ = translated("xliff", xliff(source))
    assert f">{source}</target>" in new


@pytest.mark.parametrize(("target", "noted"), [("zh-CN", True), ("zh-tw", False), ("zh", False)])
def test_xliff_languages(target, noted):
    text = f'<xliff version="2.0" srcLang="en-US" trgLang="{target}"/>'
    notes = opened("xliff", text, languages=("en", "zh_TW")).notes
    assert notes == [f"the document's languages are en-US and {target}, but the model's are en and zh_TW"] * noted


def test_xliff_2():
    text = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="fr" trgLang="de">
<file id="f"><unit id="u"><originalData><data id="d">x</data></originalData>
<segment id="1"><source>one <pc id="1">two</pc><ph id="2" dataRef="d"/></source></segment>
<ignorable><source> </source></ignorable>
<segment id="2" state="initial"><source>three</source><target>drei</target></segment>
<segment id="3"><source>four</source><target>vier</target></segment></unit></file></xliff>"""
    document = opened("xliff", text)
    assert texts(document) == [(3, "one *two**"), (5, "three")]
    assert document.notes[-1] == "the document's languages are fr and de, but the model's are en and de"
    written = shouted("xliff", text)
    assert '<segment id="1" state="translated">' in written
    assert '<target>ONE &amp;<pc id="1">TWO&amp;</pc><ph id="2" dataRef="d"/></target></segment>' in written
    assert '<segment id="2" state="translated"><source>three</source><target>THREE&amp;</target></segment>' in written
    assert '<segment id="3"><source>four</source><target>vier</target></segment>' in written


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("tmx", '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx>&a;</tmx>', "declares an entity, a"),
        ("xliff", "<xliff>\n<file></xliff>", "not well-formed XML: .*page:2|not well-formed"),
        ("tmx", "", r"not well-formed XML: Document is empty \(page:1\); save the document again"),
        ("xliff", "lo dumo", r"not well-formed XML: .*\(page\); save the document again"),
        ("xliff", "<tmx/>", "the first element is tmx, but xliff was expected"),
        ("srt", b"1\n\xff\n", r"not valid utf-8: byte 0xFF \(page:2\)"),
        ("html", '<meta charset="none-such">', "unknown encoding, 'none-such'"),
    ],
)
def test_what_is_not_of_the_format(form, text, message):
    with pytest.raises(UserError, match=message):
        opened(form, text)


def test_formats_by_ending():
    names = ["a.TMX", "a.xlf", "a.xliff", "a.htm", "a.srt", "a.vtt", "a.txt", "a"]
    assert [format_of(None, Path(each)) for each in names] == [
        "tmx",
        "xliff",
        "xliff",
        "html",
        "srt",
        "vtt",
        None,
        None,
    ]
    assert format_of("lines", Path("a.html")) is None
    assert format_of("text", None) == "text"


@pytest.mark.parametrize(
    ("asked", "name"), [(None, "a.html.gz"), (None, "a.XLF.XZ"), ("html", "a.gz"), ("text", "a.txt.gz")]
)
def test_a_compressed_document_is_refused(asked, name):
    with pytest.raises(UserError, match=rf"compressed.*\({name}\); unpack it, or add --document lines"):
        format_of(asked, Path(name))


def test_compressed_lines_are_read():
    assert format_of(None, Path("a.txt.gz")) is None
    assert format_of(None, Path("a.gz")) is None
    assert format_of("lines", Path("a.html.gz")) is None


def test_signs_after_the_last_tag_of_a_page_are_one_text():
    """An unfinished tag is text. Python's parser would look for its end from each sign to the end of the page."""
    text = "<p>uns</p> mebu &lt; " + "<a <!-- </b " * 300
    assert len(Tokens(text).tokens) < 10
    document = opened("html", text)
    assert document.content().decode() == text
    assert [each.pieces for each in document.segments] == [["uns"], [" mebu < " + "<a <!-- </b " * 300]]
    assert opened("html", "<script>a <b <c").segments == []
