"""`posnmt data clean`: what is dropped and why; nothing is lost, changed or reordered."""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import unicodedata
from pathlib import Path

import pytest
import regex
import yaml
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.progress import Display
from posnmt.corpora.cleaning.clean import REASONS, Settings, clean
from posnmt.corpora.cleaning.duplicates import Duplicates
from posnmt.corpora.cleaning.opusfilter import configuration
from posnmt.corpora.cleaning.rules import Copied, Damaged, Empty, Length, OtherScript, Ratio
from posnmt.corpora.cleaning.scripts import Script, script_of
from tests.support.commands import refused, run
from tests.support.shared import SHARED, needs

OFF = Settings(False, False, False, 0, 0, 0.0, 0.0, "keep")
LATIN, CYRILLIC, JAPANESE = Script("Latn"), Script("Cyrl"), Script("Jpan")


def write(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def lines(path):
    text = path.read_bytes().decode()
    return text.removesuffix("\n").split("\n") if text else []


def cleaned(folder, pairs, settings):
    """Kept pairs; dropped pairs, and the columns of each; of a text of pairs."""
    files = [
        write(folder / name, side)
        for name, side in zip(("a.source", "a.target"), zip(*pairs, strict=True), strict=True)
    ]
    done = clean(folder / "out", [tuple(files)], settings, Display(quiet=True))
    kept = list(zip(*map(lines, done.files), strict=True))
    sides = [done.files[0].with_name(path.name.replace("clean", "dropped")) for path in done.files]
    dropped = list(zip(*map(lines, sides), strict=True))
    return kept, dropped, [line.split("\t") for line in lines(folder / "out" / "dropped.tsv")]


@pytest.mark.parametrize(
    ("rule", "pair", "detail"),
    [
        (Damaged(), ("a\tb", "c\u2028d\u200d"), None),
        (Damaged(), ("a", "b\x07"), "target: U+0007"),
        (Damaged(), ("\ufffd", "b"), "source: U+FFFD"),
        (Damaged(), ("a", "\x93b\x94"), "target: U+0093"),
        (Empty(), (".", "0"), None),
        (Empty(), (" \u3000", "a"), "source"),
        (Empty(), ("", "\ufeff\u200b "), "source and target"),
        (Copied(), ("Berlin", "Berlin."), None),
        (Copied(), ("Berlin ", " BERLIN"), ""),
        (Length(2, 3), ("ab", "abc"), None),
        (Length(2, 3), ("ab", "abcd"), "target: 4"),
        (Length(2, None), ("a" * 99, " a"), "target: 1"),
        (Length(None, None), ("", "a" * 99), None),
        (Ratio(3), ("ab", "abcde"), None),
        (Ratio(3), ("abcdef", "ab"), "3.00"),
        (Ratio(3), ("ab", "abcdef"), "3.00"),
        (Ratio(3), ("", "a"), None),  # for `Empty` to say
        (Copied(), (" ", ""), None),
        (Ratio(3), ("", ""), None),
        (Ratio(3, 0.5), ("abcd" * 4, "ab"), "4.00"),
        (Ratio(3, 0.5), ("abcd", "abcde"), None),
        (OtherScript(0.5, (LATIN, CYRILLIC)), ("Moscow", "Москва ABC"), None),
        (OtherScript(0.5, (LATIN, CYRILLIC)), ("Moscow", "Мо ABC"), "target: 0.40 Cyrl"),
        (OtherScript(0.5, (LATIN, CYRILLIC)), ("1990 %", "?!"), None),
        (OtherScript(0.5, (None, CYRILLIC)), ("Москва", "Москва"), None),
        (OtherScript(0.9, (JAPANESE, LATIN)), ("コンピューターを買う", "to buy a computer"), None),
        (OtherScript(0.5, (JAPANESE, LATIN)), ("해요", "a"), "source: 0.00 Jpan"),
        (OtherScript(0.9, (Script("Deva"), LATIN)), ("हिन्दी", "Hindi"), None),
    ],
)
def test_a_rule(rule, pair, detail):
    assert rule(pair) == detail


@pytest.mark.parametrize(
    ("language", "text", "code"),
    [
        ("ru", "in Latin letters", "Cyrl"), ("zh-Hant", "", "Hant"), ("srp_Cyrl", "", "Cyrl"), ("de", "Straße", "Latn"),
        ("ja", "", "Jpan"), (None, "東京に行きました", "Jpan"), (None, "我去了东京", "Hani"),
        (None, "도쿄에 갔어요 in 1990", "Kore"),
        (None, "Ελλάδα", "Grek"), (None, "1, 2", None), ("sr", "Србија", "Cyrl"),
    ],
)  # fmt: skip
def test_the_script_of_a_text(language, text, code):
    script = script_of(language, [text])
    assert (script.code if script else None) == code


SIDE = st.text("aAb .!1é\x93\u200bяあ", max_size=9)
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=12)
SETTINGS = st.builds(
    Settings,
    *[st.booleans()] * 3,
    min_length=st.integers(0, 3),
    max_length=st.sampled_from([0, 10, 2000]),
    max_ratio=st.sampled_from([0, 2.0, 4.0]),
    min_script=st.sampled_from([0, 0.5, 1]),
    duplicates=st.sampled_from(["near", "exact", "keep"]),
    one_target=st.booleans(),
    languages=st.just(("de-Latn", "en-Latn")),  # not guessed from letters, so that the good pair stays
)


@given(PAIRS, SETTINGS)
def test_every_pair_is_kept_or_listed_in_its_order(pairs, settings):
    pairs = [*pairs, ("good words", "gutes Wort")]
    with tempfile.TemporaryDirectory() as folder:
        kept, dropped, columns = cleaned(Path(folder), pairs, settings)
        assert [each[0] for each in columns] == [f"{folder}/a.source"] * len(dropped)
    numbers = [int(each[1]) - 1 for each in columns]
    assert numbers == sorted({*numbers})
    assert dropped == [pairs[number] for number in numbers]
    assert kept == [pair for number, pair in enumerate(pairs) if number not in numbers]
    assert {each[2] for each in columns} <= {*REASONS}
    for number, (_, line, reason, detail) in zip(numbers, columns, strict=True):
        if "duplicate" in reason or reason == "same source":
            first = pairs[int(detail.rpartition(":")[2]) - 1]
            assert first in kept[: int(line)]
            assert reason == "same source" or (first == pairs[number]) == (reason == "duplicate")


def letters(text):
    return [each for each in unicodedata.normalize("NFKC", text).lower() if unicodedata.category(each)[0] in "LMN"]


@given(PAIRS, st.booleans())
def test_duplicates_are_those_of_every_two_pairs_compared(pairs, one_target):
    repeated, kept = Duplicates("near", one_target), []
    for number, pair in enumerate(pairs):
        same = [
            each
            for each in kept
            if letters(each[0]) == letters(pair[0]) and (one_target or letters(each[1]) == letters(pair[1]))
        ]
        assert (repeated(number, pair) is None) == (not same)
        if not same:
            kept.append(pair)


@pytest.mark.parametrize(
    ("compare", "second", "reason"),
    [
        ("near", ("Guten Tag.", "Good day."), "duplicate"),
        ("near", ("guten  Tag", "GOOD DAY!"), "near-duplicate"),
        ("near", ("Guten Tag 2", "Good day 2"), None),
        ("near", ("Ｇｕｔｅｎ Ｔａｇ", "Good day"), "near-duplicate"),
        ("near", ("Guten Tag.", "Hello."), None),
        ("exact", ("guten  Tag", "GOOD DAY!"), None),
        ("exact", ("Guten Tag.", "Good day."), "duplicate"),
        ("keep", ("Guten Tag.", "Good day."), None),
    ],
)
def test_which_pairs_are_duplicates(compare, second, reason):
    repeated = Duplicates(compare, one_target=False)
    assert repeated(7, ("Guten Tag.", "Good day.")) is None
    assert repeated(8, second) == (reason and (reason, 7))


def test_a_pair_that_is_dropped_is_not_the_first_of_others():
    repeated = Duplicates("exact", one_target=True)
    assert repeated(0, ("a", "b")) is None
    assert repeated(1, ("a", "c")) == ("same source", 0)
    assert repeated(2, ("d", "e")) is None
    assert repeated(3, ("d", "e")) == ("duplicate", 2)
    assert repeated(4, ("a", "c")) == ("same source", 0)


def test_switched_off_nothing_is_dropped(tmp_path):
    pairs = [("a", "a"), ("", "b"), ("\x07", "c" * 3000), ("a", "a"), ("я", "d")]
    kept, dropped, _ = cleaned(tmp_path, pairs, OFF)
    assert (kept, dropped) == (pairs, [])


def test_the_expected_ratio_is_that_of_the_text_where_one_side_has_no_blanks(tmp_path):
    pairs = [
        (f"{number} sentences that have three times the letters", "三分の一の長さ" * 2 + "。" * (number % 3))
        for number in range(50)
    ]
    kept, _, columns = cleaned(tmp_path, [*pairs, ("a short one", "三分の一の長さ" * 12)], Settings(max_ratio=4.0))
    assert len(kept) == 50
    assert [each[1:3] for each in columns] == [["51", "length ratio"]]


def test_the_command(tmp_path):
    with gzip.open(tmp_path / "one.de.gz", "wb") as file:
        file.write("\ufeffGuten Tag.\r\nGrüße\nДобрый день.\n".encode() + b"F\xfcr\nWien\n")
    write(tmp_path / "one.en", ["Good day.", "Greetings", "Good day to you.", "For", "Vienna"])
    write(tmp_path / "two.de", ["guten Tag", "Wien", "Berlin"])
    write(tmp_path / "two.en", ["Good day", "the city of Vienna", "Berlin"])
    files = [part for name in ("one", "two") for part in (
        "--source", tmp_path / (f"{name}.de.gz" if name == "one" else f"{name}.de"), "--target", tmp_path / f"{name}.en"
    )]  # fmt: skip
    out, err = run("data", "clean", *files, "--out", tmp_path / "out", "--one-target", "--max-ratio", 0)
    assert out.split("\n") == [f"{tmp_path}/out/clean.de", f"{tmp_path}/out/clean.en", ""]
    assert lines(tmp_path / "out" / "clean.de") == ["Guten Tag.", "Grüße", "Wien"]
    assert lines(tmp_path / "out" / "clean.en") == ["Good day.", "Greetings", "Vienna"]
    one, two = f"{tmp_path}/one.de.gz", f"{tmp_path}/two.de"
    assert [tuple(line.split("\t")) for line in lines(tmp_path / "out" / "dropped.tsv")] == [
        (one, "3", "script", "source: 0.00 Latn"),
        (one, "4", "damaged characters", "source: U+FFFD"),
        (two, "1", "near-duplicate", f"{one}:1"),
        (two, "2", "same source", f"{one}:5"),
        (two, "3", "copy", ""),
    ]
    assert lines(tmp_path / "out" / "dropped.en") == [
        "Good day to you.", "For", "Good day", "the city of Vienna", "Berlin",
    ]  # fmt: skip
    assert re.search(r"read +8 +100\.0%.*copy +1 +12\.5%.*kept +3", err, re.DOTALL)
    assert "1 lines end in CRLF" in err
    assert "byte order mark" in err
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["parameters"]["languages"] == ["de", "en"]
    assert manifest["statistics"]["kept"] + sum(manifest["statistics"]["dropped"].values()) == 8
    assert refused("data", "clean", *files, "--out", tmp_path / "out")  # it exists


def test_what_the_command_refuses(tmp_path):
    source, target = write(tmp_path / "a.de", ["a", "b"]), write(tmp_path / "a.en", ["a"])
    command = ("data", "clean", "--source", source, "--target", target)
    [fault] = refused(*command, "--target", target, "--out", tmp_path / "out")
    assert "1 sources and 2 targets (--source, --target)" in fault
    [fault] = refused(*command, "--out", tmp_path / "out")
    assert "different line counts" in fault
    write(target, ["A", "B"])
    [fault] = refused(*command, "--out", tmp_path / "out")
    assert "2 copy (--source, --target)" in fault
    source.write_bytes(b"F\xfcr\nb\n")
    [fault] = refused(*command, "--keep", "damaged", "--out", tmp_path / "out")
    assert f"({source}:1)" in fault
    [fault] = refused(*command, "--source-language", "sr-Xxxx", "--out", tmp_path / "out")
    assert "no script is called 'Xxxx'" in fault
    write(source, ["a b", "b c"])
    write(target, ["x y", "y z"])
    [fault] = refused(*command, "--out", tmp_path / "out", "--opusfilter", source)
    assert "is not overwritten" in fault
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--source-language", "a/b"),
            "'a/b' is no language code (--source-language); for example en, pt_BR or jpn_Jpan",
        ),
        (("--target-language", ""), "'' is no language code (--target-language)"),
        (("--opusfilter", "none/x.yaml"), "does not exist (none/x.yaml); create it, or choose another --opusfilter"),
    ],
)
def test_what_is_refused_before_the_text_is_read(tmp_path, options, message):
    sides = "--source", tmp_path / "none.a", "--target", tmp_path / "none.b"
    [fault] = refused("data", "clean", *sides, "--out", tmp_path / "out", *options)
    assert message in fault
    assert not list(tmp_path.iterdir())


def test_a_configuration_beside_the_cleaned_files(tmp_path):
    files = [write(tmp_path / name, ["one two"]) for name in ("a.en", "a.de")]
    out = tmp_path / "out"
    run("data", "clean", "--source", files[0], "--target", files[1], "--out", out, "--keep", "copies",
        "--opusfilter", out / "filter.yaml")  # fmt: skip
    assert {"clean.en", "clean.de", "filter.yaml"} <= {path.name for path in out.iterdir()}


def test_the_configuration_for_opusfilter(tmp_path):
    pairs = [(write(tmp_path / "a.de", ["eins"]), write(tmp_path / "a.en", ["one"]))]
    settings = Settings(one_target=True, languages=("de", "en"))
    text = configuration(pairs, settings, settings.rules([("eins", "one")]))
    tree = yaml.safe_load(text)
    assert [each["type"] for each in tree["steps"]] == [
        "concatenate", "concatenate", "filter", "preprocess", "remove_duplicates", "remove_duplicates",
    ]  # fmt: skip
    outputs = {"0.source", "0.target"}
    for step in tree["steps"][2:]:
        assert {*step["parameters"]["inputs"]} <= outputs
        outputs |= {*step["parameters"]["outputs"]}
    assert [each["parameters"]["compare"] for each in tree["steps"][4:]] == [[2, 3], [2]]
    assert f"It writes opusfilter/{tree['steps'][-1]['parameters']['outputs'][0]} and" in text
    other = OFF.rules([])
    assert [each["type"] for each in yaml.safe_load(configuration(pairs, OFF, other))["steps"]] == ["concatenate"] * 2
    japanese = Settings(languages=("de", "ja"))
    examples = [("ein langer deutscher Satz", "日本語の文です")] * 3
    text = configuration(pairs, japanese, japanese.rules(examples))
    assert re.search(r"# .*: length ratio: .* 0\.28 characters", text)
    assert re.search("# .*: script: Jpan", text)
    names = [name for each in yaml.safe_load(text)["steps"][2]["parameters"]["filters"] for name in each]
    assert names == ["RegExpFilter", "RegExpFilter", "SimilarityFilter", "LengthFilter", "CharacterScoreFilter"]


def test_opusfilter_removes_the_same_signs():
    tree = yaml.safe_load(configuration([(Path("a"), Path("b"))], Settings(), []))
    [[pattern, *_]] = tree["steps"][2]["parameters"]["preprocessors"][0]["RegExpSub"]["patterns"]
    every = "".join(chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) not in ("Cn", "Cs"))
    ours = regex.sub(r"[^\p{L}\p{M}\p{N}\p{Cn}]+", "", every)
    theirs = re.sub(pattern, "", every)
    assert {*theirs} ^ {*ours} == {  # characters that only one of the two versions of Unicode has
        each for each in {*theirs} ^ {*ours} if unicodedata.category(each) == "Cn" or regex.match(r"\p{Cn}", each)
    }


@pytest.mark.slow
@needs("deen_wmt_news")
def test_real_text(tmp_path):
    files = []
    for side in ("de", "en"):
        text = (SHARED / "deen_wmt_news" / f"train.{side}").read_bytes().decode().split("\n")
        files.append(write(tmp_path / f"news.{side}", text[:20_000]))
    done = clean(tmp_path / "out", [tuple(files)], Settings(), Display(quiet=True))
    facts = done.manifest["statistics"]
    assert facts["kept"] + sum(facts["dropped"].values()) == 20_000
    assert 0.98 < facts["kept"] / 20_000 < 0.995
    again = clean(tmp_path / "again", [done.files], Settings(), Display(quiet=True))
    assert again.manifest["statistics"]["dropped"] == dict.fromkeys(REASONS, 0)
