"""`posnmt condition swap`: how many words stand elsewhere, what stays, and that one seed gives one text."""

import json
import re
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.corpora.artificial.pairs import generate
from posnmt.corpora.conditions.swap import Sentence, swap
from posnmt.corpora.conditions.text import InputText
from posnmt.data.corpus import TextFile

# No-break space and ideographic space separate no words here.
LINES = st.lists(st.text("abc \t\u00a0\u3000\u2028", max_size=60), min_size=1, max_size=10)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def make(out, source, shares, seed=1):
    return swap(out, InputText({"source": TextFile("--source", source)}), shares, seed)


def moved(one, other):
    """Places of words that hold another word, where no word is in a line twice."""
    return sum(a != b for a, b in zip(one.split(" "), other.split(" "), strict=True))


@given(LINES, st.floats(0.01, 1), st.integers(0, 100))
def test_words_and_blanks_stay(given_lines, share, seed):
    random = Random(seed)
    for line in given_lines:
        swapped = Sentence(line, random).swapped(share)
        assert sorted(re.findall("[^ \t]+", swapped)) == sorted(re.findall("[^ \t]+", line))
        assert re.findall("[ \t]+", swapped) == re.findall("[ \t]+", line)


@given(st.integers(0, 80), st.floats(0.01, 1), st.integers(0, 100))
def test_the_share_is_met_within_one_swap(count, share, seed):
    line = " ".join(map(str, range(count)))
    sentence = Sentence(line, Random(seed))
    places = moved(line, sentence.swapped(share))
    assert places == 2 * sentence.swaps(share)
    assert places % 2 == 0
    assert share * count - 2 < places < share * count + 2


@pytest.mark.parametrize("count", [4, 7, 15, 40])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.6])
def test_the_share_is_right_on_average_at_every_length(count, share):
    line = " ".join(map(str, range(count)))
    random = Random(5)
    found = [moved(line, Sentence(line, random).swapped(share)) for _ in range(4000)]
    # a line is off by less than 2 words, so the mean of 4,000 by less than 4 standard errors, 4 x 1 / 63 words
    assert sum(found) / len(found) == pytest.approx(share * count, abs=4 / 4000**0.5)


def test_every_two_places_are_exchanged_equally_often():
    random, seen = Random(3), {}
    for _ in range(6000):
        places = [int(place) for place in Sentence("0 1 2 3", random).swapped(0.5).split()]
        pair = tuple(place for place, word in enumerate(places) if word != place)
        seen[pair] = seen.get(pair, 0) + 1
    assert sorted(seen) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert all(abs(times - 1000) < 130 for times in seen.values()), "4.5 standard deviations of 29"


@given(st.integers(2, 40), st.integers(0, 50))
def test_a_larger_share_swaps_the_same_words_and_more(count, seed):
    line = " ".join(map(str, range(count)))
    sentence = Sentence(line, Random(seed))
    few, many = (sentence.swapped(share).split(" ") for share in (0.2, 0.7))
    for place, word in enumerate(few):
        if word != str(place):
            assert many[place] == word


@pytest.fixture
def source(tmp_path):
    """200 artificial sentences of 3 to 30 words, a blank line, and one with odd blanks."""
    sentences = [pair.source for pair in generate(200, 3, 30, seed=2)]
    return write(tmp_path / "source", [*sentences[:100], "", " \ta  b\u00a0c\tb ", *sentences[100:]])


def test_files_and_facts(tmp_path, source):
    manifest = make(tmp_path / "out", source, [0.1, 0.5, 1.0], seed=7)
    files = ["swapped-0.1.source", "swapped-0.5.source", "swapped-1.source"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", *files]
    before = lines(source)
    total = sum(len(re.findall("[^ \t]+", line)) for line in before)
    facts = manifest["statistics"]
    assert (facts["read"], facts["blank"], facts["words"]) == (202, 1, total)
    for name, share in zip(files, (0.1, 0.5, 0.98), strict=True):
        after = lines(tmp_path / "out" / name)
        assert after[100] == ""
        told = facts["shares"][name.removeprefix("swapped-").removesuffix(".source")]
        assert told["changed_lines"] == sum(old != new for old, new in zip(before, after, strict=True))
        assert told["share"] == pytest.approx(told["swapped_words"] / total, abs=1e-4)
        assert told["share"] == pytest.approx(share, abs=0.03)
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["parameters"]["seed"] == 7


def test_a_line_whose_swapped_words_are_equal_is_not_changed(tmp_path):
    text = write(tmp_path / "text", ["a b", "a a", "c d", "", "e"])
    told = make(tmp_path / "out", text, [1.0])["statistics"]["shares"]["1"]
    assert (told["swapped_words"], told["changed_lines"]) == (6, 2)
    assert lines(tmp_path / "out" / "swapped-1.source") == ["b a", "a a", "d c", "", "e"]


def test_one_seed_gives_one_text_whatever_other_shares_are_asked_for(tmp_path, source):
    make(tmp_path / "a", source, [0.1, 0.3])
    make(tmp_path / "b", source, [0.3])
    make(tmp_path / "c", source, [0.3], seed=2)
    one, same, other = ((tmp_path / name / "swapped-0.3.source").read_bytes() for name in "abc")
    assert one == same
    assert one != other


def test_the_bytes_do_not_change_between_versions(tmp_path):
    make(tmp_path / "out", write(tmp_path / "x", ["a b c d e f g h i j", "k l m n o"]), [0.4])
    assert lines(tmp_path / "out" / "swapped-0.4.source") == ["a j f d e c g h i b", "k l o n m"]


@pytest.mark.parametrize("shares", [[], [0.0], [1.1], [-0.1], [0.1, 0.1], [float("nan")]])
def test_shares_that_are_refused(tmp_path, source, shares):
    with pytest.raises(UserError, match="shares are different numbers above 0 and at most 1; got "):
        make(tmp_path / "out", source, shares)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["これは長い文です。"] * 9 + ["二 語"], "the text is Japanese without spaces between words"),
        (["วันนี้อากาศดีมาก เขาเรียนที่มหาวิทยาลัย"] * 3, "the text is Thai without spaces between words"),
        (["a/long/word"] * 9 + ["two words"], "nearly every line is a single word"),
    ],
)
def test_unsegmented_text_is_refused(tmp_path, lines, why):
    text = write(tmp_path / "text", lines)
    with pytest.raises(UserError, match=rf"{why}, and only words .*text\); separate words.*prepare.md"):
        make(tmp_path / "out", text, [0.1])
    assert not (tmp_path / "out").exists()


def test_segmented_japanese_is_swapped(tmp_path):
    text = write(tmp_path / "text", ["猫 は マット の 上 に 座っ た 。"] * 5)
    assert make(tmp_path / "out", text, [0.5])["statistics"]["words"] == 45


def test_the_command_line(tmp_path, source):
    call = ["condition", "swap", "--source", str(source), "--share", "0.1", "--share", "0.2", "--out"]
    done = CliRunner().invoke(main, [*call, str(tmp_path / "out"), "--seed", "4"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out'}\n"
    facts = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["statistics"]
    told = done.stderr.split("\n")
    assert told[0] == "1 of 202 lines are empty on one side at least; they are kept"
    for line, (name, share) in zip(told[1:3], facts["shares"].items(), strict=True):
        assert line.startswith(f"{name}: {share['swapped_words']:,} of {facts['words']:,} words swapped (")
    refused = CliRunner().invoke(main, [*call[:-1], "--share", "2", "--out", str(tmp_path / "no")])
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: shares are different numbers above 0 and at most 1; got 0.1, 0.2, 2")
    assert not (tmp_path / "no").exists()
