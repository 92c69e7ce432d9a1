"""Spans that a translation must have as they are: which are found, and that they come back."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserErrors
from posnmt.translate.spans import differing, find, put_back, read_patterns, remove

SAMPLES = {
    "Hello {name}, press %1$s": ["{name}", "%1$s"],
    "%s and %d%% of %-10.3f, %(count)s %@ %L1 %n": ["%s", "%d%%", "%-10.3f", "%(count)s", "%@", "%L1", "%n"],
    "{{x}} {{ user.name }} {0:.2f} ${HOME} #{x} %{n}": [
        "{{x}}", "{{ user.name }}", "{0:.2f}", "${HOME}", "#{x}", "%{n}",
    ],
    "{n, plural, one {# file} other {# files in {dir}}} left": ["{n, plural, one {# file} other {# files in {dir}}}"],
    "<x1> <b>bold</b> <br/> <a href='x'>y</a>": ["<x1>", "<b>", "</b>", "<br/>", "<a href='x'>", "</a>"],
    "A &lt;b&gt; and &nbsp; or &#160; &Johnson;.": ["&lt;b&gt;", "&nbsp;", "&#160;"],
    "See https://example.org/a_(b)?q=1. Or www.foo.com/x, or a.b@c.de!": [
        "https://example.org/a_(b)?q=1", "www.foo.com/x", "a.b@c.de",
    ],
    "In /usr/bin/x, ~/.bashrc, ./a/b.py, src/main.py, /etc and C:\\Users\\x.txt.": [
        "/usr/bin/x", "~/.bashrc", "./a/b.py", "src/main.py", "/etc", "C:\\Users\\x.txt",
    ],
    "Use `ls -l` or ``a`b``.": ["`ls -l`", "``a`b``"],
    "%s%s<br>": ["%s%s<br>"],
    "%5.1f %02d:%02d %dpx %sB %1 %2, 50%%": ["%5.1f", "%02d", "%02d", "%d", "%s", "%1", "%2", "%%"],
    "$HOME/{name}/file http://{host}/x a={x} {name}-file": ["$HOME/{name}/file", "http://{host}/x", "a={x}", "{name}"],
    "{x:,.2f} {n!r:>10} {{ a | default('x y') }} {% if x %} <0>a</0> $t(a.b)": [
        "{x:,.2f}", "{n!r:>10}", "{{ a | default('x y') }}", "{% if x %}", "<0>", "</0>", "$t(a.b)",
    ],
    "A (http://a.b/c_(d)) and B<install> or List<int>, <b>x</b>y<b>z</b>": [
        "http://a.b/c_(d)", "<b>", "</b>", "<b>", "</b>",
    ],
    "请看https://a.cn/b）或www.c.cn，写信到x@y.cn。在/usr/bin里，用`ls`。": [
        "https://a.cn/b", "www.c.cn", "x@y.cn", "/usr/bin", "`ls`",
    ],
}  # fmt: skip

PROSE = [
    "100 % der Leute, 50% discount and 3 %.", "a < b and b > c, 1<2", "either/or, he/she, km/h, TCP/IP, 24/7, 1/2",
    "AT&T and R&D", "%50 indirim ve %8,5", "<The poem by Prince Otsu>", "if a <b and c> d", "1/43.6 miss/39.9 km/h.The",
    "`gorgeous,' with a long-stretched `o', he said", "互联网/电子商务行业分别以14.3", "424.10/27.60",
    "Er sagte {siehe unten} und {1, 2}.", "Don't `do that", "At 10:30 @home #1 $5", "C: drive; 5 // 3",
]  # fmt: skip


@pytest.mark.parametrize("text", SAMPLES)
def test_spans_are_found(text):
    assert [text[start:end] for start, end in find(text)] == SAMPLES[text]


@pytest.mark.parametrize("text", PROSE)
def test_prose_has_no_spans(text):
    assert find(text) == []


def test_patterns_of_the_user_are_found_too():
    assert find("a KEEP-12 b %s", [re.compile(r"KEEP-\d+")]) == [(2, 9), (12, 14)]


def test_a_file_of_patterns(tmp_path):
    path = tmp_path / "patterns"
    path.write_text("# ours\n\nKEEP-\\d+\n")
    assert read_patterns(path) == [r"KEEP-\d+"]
    path.write_text("(\nx\na*\n")
    with pytest.raises(UserErrors) as faults:
        read_patterns(path)
    assert [each.where for each in faults.value.faults] == [f"{path}:1", f"{path}:3"]


TEXTS = st.lists(
    st.sampled_from([*(span for spans in SAMPLES.values() for span in spans), *"abc,.()  ", "Haus", "der"])
)


@given(TEXTS.map(" ".join), st.lists(st.sampled_from(["Das", "Haus", "ist", "(", ")", "gut", ",", "."])).map(" ".join))
def test_whatever_the_translation_it_has_every_span_once(text, translation):
    """By whatever places: those of shares, and links at random."""
    removed = remove(text, find(text))
    assert not any(text[start:end] in removed.text for start, end in removed.spans)
    draw = random.Random(text)
    words = (
        [match.span() for match in re.finditer(r"\w+", text)],
        [match.span() for match in re.finditer(r"\w+", translation)],
    )
    links = [(draw.choice(words[0]), draw.choice(words[1])) for _ in range(5)] if all(words) else []
    for by in (None, links):
        written = put_back(removed, translation, by)
        assert differing("".join(text[start:end] + " " for start, end in removed.spans), written) == []
        rest = written
        for start, end in sorted(removed.spans, key=lambda span: span[0] - span[1]):
            rest = rest.replace(text[start:end], "", 1)
        assert "".join(rest.split()) == "".join(translation.split())


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("Hello {name}, press %1$s.", "Hallo, drücken Sie.", "Hallo {name}, drücken Sie %1$s."),
        ("See https://a.b/c for more", "Siehe für mehr", "Siehe https://a.b/c für mehr"),
        ("({x}) is here", "() ist hier", "({x}) ist hier"),
        ("{name} is here", "Ist hier", "{name} Ist hier"),
        ("Open {x}", "Öffne", "Öffne {x}"),
        ("Open {x}.", "Öffne.", "Öffne {x}."),
    ],
)
def test_a_span_stands_where_its_neighbours_do(source, translation, wanted):
    assert put_back(remove(source, find(source)), translation) == wanted


def test_links_place_spans_and_tags_enclose_what_they_enclosed():
    source, translation = "Press %s to save <b>the file</b>", "Um die Datei zu speichern drücken"
    words = {each: (source.index(each), source.index(each) + len(each)) for each in ("Press", "save", "the", "file")}
    places = {each: (translation.index(each), translation.index(each) + len(each)) for each in translation.split()}
    pairs = [("Press", "drücken"), ("save", "speichern"), ("the", "die"), ("file", "Datei")]
    links = [(words[one], places[other]) for one, other in pairs]
    written = put_back(remove(source, find(source)), translation, links)
    assert written == "Um <b>die Datei</b> zu speichern drücken %s"


def test_what_is_lost_or_invented_is_named():
    assert differing("see %s and <b>", "siehe <b> und <b>") == ["%s", "<b>"]
    assert differing("%s %s", "%s%s") == []


def test_tags_keep_their_order_where_words_change_theirs():
    source, translation = "<b>eins</b> <i>zwei</i>", "two one"
    links = [((3, 7), (4, 7)), ((15, 19), (0, 3))]
    written = put_back(remove(source, find(source)), translation, links)
    assert re.findall("<[^>]+>", written) == ["<b>", "</b>", "<i>", "</i>"]
