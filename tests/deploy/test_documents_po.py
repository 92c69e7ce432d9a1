"""PO as documents: messages without a translation get one, marked as fuzzy; everything else stays."""

from __future__ import annotations

import gettext
import shutil
import subprocess

import pytest

from posnmt.base.errors import UserError
from posnmt.deploy.documents.segment import Kept
from tests.support.document_case import installed, opened, shouted, texts, translate

HEADER = r"""# A title
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"
"""
PAGE = (
    HEADER
    + r"""
#. for developers
#: a.c:1 b.c:2
#, c-format
#| msgid "the old cat"
msgctxt "menu"
msgid "the cat"
msgstr ""

msgid "done"
msgstr "fertig"

#, fuzzy
msgid "a \"guess\""
msgstr   "geraten"

# kept   as it is
msgid ""
"Two\tlines\n"
"of text.\n"
msgstr ""

msgid  "%d cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1]  ""

msgid "12"
msgstr ""

#, fuzzy
#~ msgid "gone"
#~ msgstr "weg"

#~ msgid ""
#~ "gone "
#~ "too"
#~ msgstr ""

msgid "last"
msgstr ""
"""
)


def po(text, header=HEADER):
    return f"{header}\n{text}"


def test_messages_without_a_translation_get_one():
    document = opened("po", PAGE)
    assert document.content().decode() == PAGE
    assert texts(document) == [
        (12, "the cat"), (24, "Two*lines*of text."), (29, "%d cat"), (29, "%d cats"), (46, "last"),
    ]  # fmt: skip
    assert document.kept == [
        Kept(16, "done", "translated messages"),
        Kept(20, 'a "guess"', "fuzzy messages, which await a review"),
        Kept(38, "gone", "obsolete messages"),
        Kept(41, "gone too", "obsolete messages"),
    ]
    assert document.notes == []
    translate(document)
    expected = PAGE
    for old, new in (
        ('#, c-format\n#| msgid "the old cat"', '#, fuzzy, c-format\n#| msgid "the old cat"'),
        ('msgid "the cat"\nmsgstr ""', 'msgid "the cat"\nmsgstr "THE CAT"'),
        ('kept   as it is\nmsgid', 'kept   as it is\n#, fuzzy\nmsgid'),
        ('of text.\\n"\nmsgstr ""', 'of text.\\n"\nmsgstr ""\n"TWO\\tLINES\\n"\n"OF TEXT.\\n"'),
        ('msgid  "%d cat"', '#, fuzzy\nmsgid  "%d cat"'),
        ('msgstr[0] ""\nmsgstr[1]  ""', 'msgstr[0] "%D CAT"\nmsgstr[1]  "%D CATS"'),
        ('msgid "last"\nmsgstr ""', '#, fuzzy\nmsgid "last"\nmsgstr "LAST"'),
    ):  # fmt: skip
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert document.content().decode() == expected


@pytest.mark.parametrize("text", [PAGE.replace("\n", "\r\n"), "\ufeff" + PAGE])
def test_line_ends_and_marks_stay(text):
    assert opened("po", text).content().decode() == text
    new = shouted("po", text)
    assert new.replace("\r\n", "\n").removeprefix("\ufeff") == shouted("po", PAGE)
    assert new.count("\n") == new.count("\r\n") or "\r" not in text


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("nplurals=1; plural=0;", ["CATS"]),
        ("nplurals=2; plural=(n != 1);", ["CAT", "CATS"]),
        ("nplurals=2; plural=n>1;", ["CAT", "CATS"]),
        ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
         ["CAT", "CATS", "CATS"]),
        ("nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
         ["CATS", "CAT", "CATS", "CATS"]),
    ],
)  # fmt: skip
def test_plural_forms_are_those_of_the_header(forms, expected):
    """The form that the header's rule gives to one thing is that of the singular; missing forms are added."""
    header = HEADER.replace("nplurals=2; plural=(n != 1);", forms)
    message = po('msgid "cat"\nmsgid_plural "cats"\nmsgstr[0] ""\n', header)
    written = shouted("po", message).split("msgstr[0]")[1]
    assert f"msgstr[0]{written}" == "".join(f'msgstr[{n}] "{form}"\n' for n, form in enumerate(expected))


def test_escapes_are_read_as_c_reads_them():
    document = opened("po", po(r'msgid "\x4Fne \117ne\t\"o\x6ee\""' + '\nmsgstr ""\n'))
    [segment] = document.segments
    assert "".join(each if isinstance(each, str) else each.content for each in segment.pieces) == 'One One\t"one"'


def test_a_plural_form_that_is_there_stays():
    message = po('msgid "cat"\nmsgid_plural "cats"\nmsgstr[0] ""\nmsgstr[1] "Katzen"\n')
    assert shouted("po", message).endswith('msgstr[0] "CAT"\nmsgstr[1] "Katzen"\n')


def test_plural_forms_in_another_order():
    message = po('msgid "cat"\nmsgid_plural "cats"\nmsgstr[1] ""\nmsgstr[0] ""\n')
    assert shouted("po", message).endswith('msgstr[1] "CATS"\nmsgstr[0] "CAT"\n')


@pytest.mark.parametrize(
    "forms",
    [None, "nplurals=INTEGER; plural=EXPRESSION;", "nplurals=2; plural=n/0;", "nplurals=2; plural=7;", "nplurals=2;"],
)
def test_plural_forms_without_a_rule_are_kept(forms):
    old = r'"Plural-Forms: nplurals=2; plural=(n != 1);\n"' + "\n"
    assert old in HEADER
    header = HEADER.replace(old, rf'"Plural-Forms: {forms}\n"' + "\n" if forms else "")
    message = po('msgid "cat"\nmsgid_plural "cats"\nmsgstr[0] ""\nmsgstr[1] ""\n\nmsgid "one"\nmsgstr ""\n', header)
    document = opened("po", message)
    [kept] = document.kept
    assert kept.text == "cat"
    assert "Plural-Forms" in kept.reason
    assert texts(document)[0][1] == "one"


def test_a_form_without_letters_is_not_written():
    header = HEADER.replace("nplurals=2; plural=(n != 1);", "nplurals=1; plural=0;")
    message = po('msgid "a"\nmsgid_plural "12"\nmsgstr[0] ""\n', header)
    assert shouted("po", message) == message


def test_a_message_is_written_whole_or_not():
    document = opened("po", po(r'msgid "One.\n\nTwo."' + '\nmsgstr ""\n'))
    assert [text for _, text in texts(document)] == ["One.", "Two."]
    document.segments[0].translated = ["Eins."]
    assert document.content().decode().endswith('Two."\nmsgstr ""\n')
    assert document.notes[0].startswith("1 messages are left as they are, because not all")
    assert document.segments[0].translated is None, "what is not written is not translated"
    document.segments[0].translated, document.segments[1].translated = ["Eins."], ["Zwei."]
    assert document.content().decode().endswith('msgstr ""\n' + r'"Eins.\n"' + "\n" + r'"\n"' + '\n"Zwei."\n')


def test_the_encoding_of_the_header():
    text = po('msgid "café"\nmsgstr ""\n\nmsgid "b"\nmsgstr ""\n').replace("UTF-8", "ISO-8859-1")
    document = opened("po", text, "latin-1")
    first, second = document.segments
    assert first.pieces == ["café"]
    first.translated, second.translated = ["kawę"], ["é"]
    assert document.content().decode("latin-1") == text.replace(
        '\nmsgid "b"\nmsgstr ""', '\n#, fuzzy\nmsgid "b"\nmsgstr "é"'
    )
    assert "1 messages are left as they are, because ISO-8859-1 lacks characters" in document.notes[-1]


def test_another_language_is_noted():
    assert opened("po", HEADER, languages=("en", "de_AT")).notes == []
    [note] = opened("po", HEADER, languages=("en", "fr")).notes
    assert note == "the document's language is de, but the model's is fr"


def test_long_translations_are_wrapped_and_mean_the_same():
    text = "A long text, 'quoted' and \\ \"other\".  " * 8
    document = opened("po", po('msgid "x"\nmsgstr ""\n'))
    document.segments[0].translated = [text]
    lines = document.content().decode().split('msgstr ""\n')[-1].splitlines()
    assert len(lines) > 4
    assert all(len(each) <= 79 for each in lines)
    assert opened("po", document.content()).kept == [Kept(9, "x", "fuzzy messages, which await a review")]
    assert "".join(each[1:-1] for each in lines) == text.replace("\\", "\\\\").replace('"', '\\"')


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('msgid "a"\nmsgstr "b\n', 2, "neither a comment nor a keyword with text in quotes: 'msgstr \"b'"),
        ('msgid "a"\nmsgstr "b"\n"c\n', 3, "neither a comment nor a keyword with text in quotes: '\"c'"),
        ('msgid "a"\nmsgstr "b"\n\nfoo\n', 4, "neither a comment"),
        ('msgid "a"\nmsgstr\n', 2, "neither a comment nor a keyword with text in quotes: 'msgstr'"),
        ('msgid\nmsgstr "b"\n', 1, "neither a comment nor a keyword with text in quotes: 'msgid'"),
        ('"a"\n', 1, "neither a comment"),
        ('msgid "a"\n\nmsgid "b"\nmsgstr "c"\n', 1, "a message of msgid; it needs msgid and msgstr"),
        ('msgctxt "a"\nmsgstr "c"\n', 1, "a message of msgctxt msgstr; it needs"),
        ('msgctxt "a"\nmsgctxt "b"\nmsgid "c"\nmsgstr "c"\n', 1, "a message of msgctxt; it needs"),
        ('msgid "a"\n', 1, "a message of msgid; it needs"),
        ('msgid "a"\n# b\nmsgstr "c"\n', 1, "a message of msgid; it needs"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr "c"\n', 1, "a message of msgid msgid_plural msgstr; it needs"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] "c"\n', 1, r"a message of msgid msgid_plural msgstr\[1\]; it needs"),
        ('msgstr "a"\n', 1, "a message of msgstr; it needs"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', 3, "a message of msgstr; it needs"),
        (b'\nmsgid "\xff"\nmsgstr ""\n', 2, "not valid utf-8: byte 0xFF"),
    ],
)
def test_what_is_not_a_catalogue(text, line, message):
    with pytest.raises(UserError, match=rf"{message}.*\(page:{line}\)"):
        opened("po", text)


@pytest.mark.parametrize("charset", ["none-such", "idna", "undefined", "zlib"])
def test_an_encoding_that_is_none(charset):
    with pytest.raises(UserError, match=charset):
        opened("po", po('msgid "caf\u00e9..a"\nmsgstr ""\n').replace("UTF-8", charset))


MSGFMT = shutil.which("msgfmt")


def compiled(path, folder):
    """What gettext's own program makes of a catalogue: messages with their translations, fuzzy ones too."""
    out = folder / "a.mo"
    subprocess.run([MSGFMT, "--use-fuzzy", "--check-header", "-o", out, path], check=True, capture_output=True)
    with out.open("rb") as file:
        return gettext.GNUTranslations(file)._catalog


@pytest.mark.skipif(MSGFMT is None, reason="GNU gettext's msgfmt is not installed")
def test_gettext_reads_what_is_written(tmp_path):
    paths = [tmp_path / "sample.po", *installed("**/*.po")]
    paths[0].write_text(PAGE)
    for path in paths:
        before, document = compiled(path, tmp_path), opened("po", path.read_bytes())
        assert document.content() == path.read_bytes()
        sentences = translate(document)
        (tmp_path / "new.po").write_bytes(document.content())
        after = compiled(tmp_path / "new.po", tmp_path)
        assert {key: after[key] for key in before} == before
        new = {key: value for key, value in after.items() if key not in before}
        assert bool(new) == bool(sentences)
        for key, value in new.items():
            source = key[0] if isinstance(key, tuple) else key.split("\4")[-1]
            assert value in (source.upper(), "%D CATS"), key
