"""Documents of every format, and a reader that translates them without a model."""

from __future__ import annotations

from pathlib import Path

from posnmt.base.errors import UserError

LANGUAGES = ("en", "de")

HTML = """<!DOCTYPE html>
<html lang=en><head><meta charset="utf-8"><title>a title</title><style>p > b { color: red }</style></head>
<body class='x' data-y="a &gt; b"><!-- a comment <p> --><p translate="no">kept</p>
<P ID=one>First <b>bold</b> <a href="x?a=1&b=2">link</A>, caf&eacute;. And more &amp; more!<br/>second line
<ul><li>item<li><code>x &lt; y</code> means less</ul><script>if (a < b) { write("<p>") }</script><pre>kept</pre>
"""
XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="de"
 original="a" datatype="plaintext"><body><trans-unit id="1"><source>One <g id="1">two</g> <x id="2"/>. Three.</source>
</trans-unit><trans-unit id="2" approved="yes"><source>Done</source><target>Fertig</target></trans-unit></body></file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="1"><segment><source>One <pc id="1">two</pc>.</source></segment><segment state="final"><source>Kept</source>
<target>Bleibt</target></segment></unit><group id="g"><unit id="2"><segment><source>Last <ph id="1"/></source></segment>
</unit></group></file></xliff>
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>One <ph>x</ph>. Two <bpt i="1">y</bpt>b<ept
 i="1">z</ept>.</seg></tuv></tu><tu><tuv xml:lang="en-GB"><seg>Two</seg></tuv><tuv xml:lang="de"><seg>Zwei</seg></tuv>
</tu></body></tmx>
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
One <i>two</i>. {\\an8}Three & four

2
00:00:03,000 --> 00:00:04,000 X1:1
- a
- b
"""
VTT = """WEBVTT - a title

NOTE a comment

STYLE
::cue { color: red }

id
00:01.000 --> 00:02.000 line:0
<v Ann>One &amp; <c.loud>two</c>. Three

00:00:03.000 --> 00:00:04.000
- a
- b
"""
PLAIN = "A paragraph. It has\ntwo lines.\n\n  Another one, with 日本語。そして。\r\n\r\n12\n"

MARKDOWN = """---
title: x
---
# A *title* #

One [two](x "y") `three` <b>four</b>
![five](x) \\* six &amp; seven [^1]

> - **eight** [nine] https://x.y/z
>   1. ten

| a | b \\| c |
|---|--------|
| `d` | ~~e~~ |

```
f
```
<p>g</p>

[nine]: x 'z'
[^1]: ten
"""
PO = r"""msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n<5 ? 1 : 2);\n"

#. a comment
#, c-format
#| msgid "before"
msgctxt "menu"
msgid "One \"two\"\n"
"- three\tfour"
msgstr ""

msgid "%d cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
msgid "done"
msgstr "fertig"

#~ msgid "gone"
#~ msgstr "weg"
"""
JSON = r"""{"a": "One\n\u00e9 two", "b": ["- three", 1, null, true, {"c": "\ud83d\ude00 https:\/\/x.y"}], "d": -1.5e3}
"""

FILES = {
    "page.html": HTML, "one.xlf": XLIFF_1, "two.xlf": XLIFF_2, "memory.tmx": TMX, "film.srt": SRT, "film.vtt": VTT,
    "page.md": MARKDOWN, "app.po": PO, "app.json": JSON, "plain.text": PLAIN, "plain.wrapped": PLAIN,
}  # fmt: skip


def read_document(folder: Path, name: str) -> None:
    """Read a document, put other text in the place of each sentence, write it, and read what was written.

    Raises:
        UserError: it cannot be read.
        AssertionError: what was written cannot be read.
    """
    from posnmt.deploy.documents.formats import format_of, read
    from posnmt.deploy.documents.segment import divide, join

    form = format_of(None, folder / name) or name.rsplit(".", 1)[1]
    document = read(form, (folder / name).read_bytes(), folder / name, LANGUAGES)
    for segment in document.segments:
        if segment.has_letters:
            parts = divide(segment, LANGUAGES[0])
            segment.translated = join(parts, [each.place(f"{each.text.upper()} <&]]>") for each in parts])
    written = document.content()
    try:
        read(form, written, folder / name, LANGUAGES)
    except UserError as error:
        raise AssertionError("what was written cannot be read") from error
