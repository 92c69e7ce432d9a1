"""Terms of a glossary: where they stand, and that translations have them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import posnmt
from posnmt.base.errors import UserError
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode, Subword
from posnmt.data.batch import pad
from posnmt.data.subword import BOS, EOS, PAD, UNK, Subwords
from posnmt.data.text import SideText
from posnmt.data.tokenise import Truecaser, Words
from posnmt.translate.bounds import Bounds
from posnmt.translate.constrained import _Open, _Sentence, constrained_search
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.search import Hypothesis
from posnmt.translate.subwords import Searcher, score_subwords, translate_subwords
from posnmt.translate.terms import Terms, contains, ends_with, subwords_of
from posnmt.translate.translations import Translation
from tests.support.commands import refused, run
from tests.support.tiny import MODELS, VOCABULARY, build, tokens

CPU = torch.device("cpu")
LEARNED = Path(__file__).parents[1] / "frozen" / "learned"
DEV = LEARNED.parent / "dev.source"


def terms(**pairs):
    return Terms.of_mapping({source.replace("_", " "): target for source, target in pairs.items()})


def test_a_term_that_is_too_long_is_refused(tmp_path):
    path = tmp_path / "terms"
    path.write_text(f"{'a ' * 512}\tb\na\tb\nc\t{'b' * 1025}\n{'d ' * 513}\tb\n")
    with pytest.raises(UserError) as raised:
        Terms.read(path)
    assert [line.partition(" (")[2].partition(")")[0] for line in raised.value.lines] == [f"{path}:3", f"{path}:4"]
    assert all("more than 1,024 characters" in line for line in raised.value.lines)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("the house is big", ["Haus"]),
        ("House and house", ["Haus"]),
        ("HOUSE, houses, warehouse, house-boat?", ["Haus"]),
        ("houses, warehouse", []),
        ("The machine  translation", ["maschinelle Übersetzung"]),
        ("The machine (translation)", ["Maschine"]),
        ("the US and us", ["USA"]),
        ("", []),
    ],
)
def test_where_terms_stand(line, wanted):
    glossary = terms(house="Haus", machine="Maschine", machine_translation="maschinelle Übersetzung", US="USA")
    assert glossary.required(line) == wanted


def test_terms_within_other_terms_and_within_words():
    glossary = terms(tea="Tee", black_tea="schwarzer Tee", cup="Tasse")
    assert glossary.required("tea, a cup of black tea") == ["Tasse", "schwarzer Tee"]
    assert Terms.of_mapping({"茶": "tea", "紅茶": "black tea"}).required("私は紅茶と茶が好き") == ["black tea"]
    assert contains("Ein Haus.", "Haus")
    assert not contains("Häuser, Hausboot", "Haus")
    assert contains("我喜欢红茶。", "红茶")
    assert contains("Der Tee .", "der Tee.")
    same = Terms.of_mapping({"a": "fi", "b": "\ufb01", "c": "Fi x"})
    assert [same.required(line) for line in ("a b", "a c")] == [["\ufb01"], ["Fi x"]]
    assert glossary.missing("black tea in a cup", "Schwarzer  Tee in einer Kanne") == ["Tasse"]


def test_a_glossary_with_faults(tmp_path):
    path = tmp_path / "terms"
    path.write_text("a\tb\nc\nd\te\tf\n\n")
    [first, second, third] = refused("translate", LEARNED, "--terms", path, stdin="a\n")
    assert f"1 column in place of 2 ({path}:2)" in first
    assert f"3 columns in place of 2 ({path}:3)" in second
    assert f"an empty line ({path}:4)" in third
    path.write_text("a\tb\nc\t\na\te\n")
    [first, second] = refused("translate", LEARNED, "--terms", path, stdin="a\n")
    assert f"an empty term ({path}:2)" in first
    assert f"the source term 'a' stands twice ({path}:3)" in second
    [line] = refused("translate", LEARNED, "--terms", tmp_path / "none", stdin="a\n")
    assert "none" in line
    with pytest.raises(UserError, match="a line is a string"):
        posnmt.load(LEARNED).translate(["a"], terms={"a": 5})


def test_a_term_is_missing_where_its_source_term_went_through_the_model():
    terms, found = Terms.of_mapping({"house": "Haus"}), [Hypothesis([4], -1.0, -0.5, True)]

    def missing(line, text, **settings):
        return Translation(Request(line), [text], found, **settings).with_missing(terms).missing_terms

    assert missing("a house {house}", "x {house}", source=[5], protected=["{house}"]) == ["Haus"]
    assert missing("a house {house}", "x Haus {house}", source=[5], protected=["{house}"]) == []
    assert missing("a {house}", "x {house}", source=[5], protected=["{house}"]) == []
    assert missing("/house", "/house", source=[]) == [], "it is passed on"


def test_subwords_of_a_term_in_text_without_blanks():
    lines = ["我喜欢红茶。", "红茶好。", "我好"] * 20
    side = SideText(
        Words("zh", "none"), Subwords.learn(lines, Subword(vocabulary=16, character_coverage=1.0), "shared")
    )
    found = subwords_of(["红茶", "我", "Ω"], side)
    assert set(found) == {"红茶", "我"}, "one has characters that are not known"
    [before] = side.encode(["好"])
    assert side.decode([[*before, *found["红茶"]]]) == ["好红茶"]


def test_a_term_keeps_its_case_where_the_text_is_truecased():
    """A term stands inside of a sentence, and a truecaser would give it the case of one that begins there."""
    lines = ["an apple of the US ,", "Apple and us", "us apple"] * 20
    words = Words("en", "moses", Truecaser({"apple": "apple", "us": "us"}, ["Apple", "US"]))
    side = SideText(words, Subwords.learn(lines, Subword(vocabulary=40, character_coverage=1.0), "shared"))
    assert side.decode([side.encode([each])[0] for each in ("Apple", "US")]) == ["Apple", "Us"]
    of_target = subwords_of(["Apple", "US", "us, Apple"], side)
    assert [side.subwords.decode([ids])[0] for ids in of_target.values()] == ["Apple", "US", "us , Apple"]


def sources(count):
    return [tokens(1, 1 + length % 7, seed=length)[0].tolist() for length in range(count)]


def stands(tokens, term):
    return any(list(tokens[at : at + len(term)]) == list(term) for at in range(len(tokens)))


GIVEN = [[[7]], [], [[5, 6]], [[9], [8, 8, 4]], [[4, 5], [5, 4]], [], [[10], [11], [12]]]


def with_terms(models, sources, terms, decode, continuing=(6, 12)):
    """What search finds for sources whose translations must have terms."""
    parts = [Part(source, terms=each) for source, each in zip(sources, terms, strict=True)]
    return Searcher(models, CPU, Workers(1), lambda: continuing).hypotheses(parts, Search(decode))


def searched(models, beam, number=14, **settings):
    decode = Decode(**{"beam": beam, "max_ratio": 0.5, "max_extra": 2, "length_penalty": 0.7, **settings})
    return with_terms(models, sources(number), [GIVEN[place % 7] for place in range(number)], decode)


@pytest.mark.parametrize("name", ["relative", "rnnsearch+distortion", "biarn"])
@pytest.mark.parametrize("beam", [1, 3])
def test_every_translation_has_its_terms(name, beam):
    model = build(**MODELS[name])
    found = searched([model], beam)
    for place, (source, group) in enumerate(zip(sources(14), found, strict=True)):
        assert len(group) >= min(beam, 2)
        forced = score_subwords([model], [source] * len(group), [each.tokens for each in group], 99, CPU)
        for each, log_probability in zip(group, forced, strict=True):
            assert all(stands(each.tokens, term) for term in GIVEN[place % 7])
            assert each.log_probability == pytest.approx(log_probability, abs=2e-5)
            assert each.score == pytest.approx(log_probability / (len(each.tokens) + 1) ** 0.7, abs=2e-5)
            assert sum(each.log_probabilities) >= each.log_probability
            assert not {PAD, UNK, BOS, EOS} & set(each.tokens)
        assert [each.score for each in group] == sorted((each.score for each in group), reverse=True)
        assert len({tuple(each.tokens) for each in group}) == len(group)


@pytest.mark.parametrize("beam", [1, 3])
def test_batches_change_nothing_and_lines_without_terms_are_as_ever(beam):
    model = build(system="relative")
    together, alone = searched([model], beam), searched([model], beam, batch=1)
    assert [[each.tokens for each in group] for group in together] == [
        [each.tokens for each in group] for group in alone
    ]
    decode = Decode(beam=beam, max_ratio=0.5, max_extra=2, length_penalty=0.7)
    free = translate_subwords([model], sources(14), decode, CPU)
    for place in range(14):
        if not GIVEN[place % 7]:
            assert [each.tokens for each in together[place]] == [each.tokens for each in free[place]]
    assert with_terms([model], sources(14), [[]] * 14, decode) == free, "bit for bit"


@pytest.mark.parametrize("given", [[[5]], [[5, 6]], [[5], [6]]])
def test_a_wide_beam_finds_the_best_of_all_outputs_with_the_terms(given):
    """All outputs of at most 3 subwords."""
    models, source = [build(system="relative", seed=seed) for seed in (1, 2)], [5, 9, 4]
    words, barred = [token for token in range(VOCABULARY) if token not in (PAD, UNK, BOS, EOS)], {10, 11}
    outputs = [list(text) for length in range(1, 4) for text in itertools.product(words, repeat=length)]
    outputs = [text for text in outputs if all(stands(text, term) for term in given)]
    scores = score_subwords(models, [source] * len(outputs), outputs, 4096, CPU)
    ranked = sorted(zip(scores, outputs, strict=True), key=lambda pair: -pair[0] / (len(pair[1]) + 1) ** 0.7)
    row, lengths = pad([source], after=EOS)
    bounds = [Bounds(3, terms=given)]
    beam = len(words) ** 2
    [found] = constrained_search(models, row, lengths, bounds, [], beam, 0.7)
    assert [each.tokens for each in found[:30]] == [text for _, text in ranked[:30]]
    [found] = constrained_search(models, row, lengths, bounds, sorted(barred), beam, 0.7)
    assert all(stands(each.tokens, term) for each in found for term in given)
    last = {term[-1] for term in given}
    whole = [text for _, text in ranked if not any(a in last and b in barred for a, b in itertools.pairwise(text))]
    assert [each.tokens for each in found[:10]] == whole[:10]


@pytest.mark.parametrize("seeds", [[1], [1, 2]])
@pytest.mark.parametrize("longest", [1, 30])
def test_a_term_that_would_go_on_with_another_one_stands_apart(seeds, longest):
    """As `GPU` behind `CPU` in text without blanks; where the limit leaves no subword between them, it is adjacent."""
    models, given = [build(system="relative", seed=seed) for seed in seeds], [[6, 9, 8], [12, 8, 9]]
    row, lengths = pad([[5, 9]], after=EOS)
    [found] = constrained_search(models, row, lengths, [Bounds(longest, terms=given)], [6, 12], 3)
    assert longest == 1 or any(each.ended for each in found)
    forced = score_subwords(models, [[5, 9]] * len(found), [each.tokens for each in found], 99, CPU)
    assert [each.log_probability for each in found] == pytest.approx(forced, abs=2e-5)
    for each in found:
        assert all(stands(each.tokens, term) for term in given)
        adjacent = any(stands(each.tokens, [*one, other]) for one in given for other in (6, 12))
        assert not (adjacent and each.ended)
    assert longest > 1 or not any(each.ended for each in found)


@pytest.mark.parametrize("ahead", [-1e-15, 1e-15])
def test_how_a_text_came_about_does_not_bar_what_follows_it(ahead):
    """Its last subword can be of the text or of the term, which are equally probable but for rounding."""
    sentence = _Sentence(0, Bounds(9, terms=[[6]]), 3, 1.0)
    free = _Open(0, (6, 4, 6), (-1.0,) * 3, -3.0 + ahead, frozenset({0}), None, 1)
    sentence.advance([replace(free, total=-3.0, behind=True), free], None)
    assert sentence.open == [free]


def test_prefixes_short_outputs_and_finite_tables():
    model = build(system="learned", max_length=9)
    row, lengths = pad([[5, 6]], after=EOS)
    [found] = constrained_search([model], row, lengths, [Bounds(1, 0, [7, 8], [[4, 5], [6]])], [12], 2)
    assert {tuple(each.tokens) for each in found} <= {(7, 8, 4, 5, 6), (7, 8, 6, 4, 5)}
    assert not any(each.ended for each in found)
    [found] = constrained_search([model], row, lengths, [Bounds(6, 5, (), [[4]])], [12], 2)
    assert all(len(each.tokens) >= 5 for each in found)
    [found] = with_terms([model], [[5, 6]], [[[4] * 5, [5] * 5]], Decode(beam=2), [12])
    assert all(stands(each.tokens, [4] * 5) for each in found), "the other one does not fit the table"


@pytest.fixture
def glossary(tmp_path):
    """A term that lines have, one that none has, and one that cannot be written."""
    words = DEV.read_text().split()
    path = tmp_path / "terms"
    path.write_text(f"{words[0]}\tZug\n{words[1]}\tdie Bahn\nxyzzy\tnie\nqqq\tΩ\n")
    return path


@pytest.mark.parametrize("beam", ["1", "3"])
def test_translations_of_lines_have_them(glossary, tmp_path, beam):
    pairs = Terms.read(glossary)
    source = tmp_path / "source"
    lines = [*DEV.read_text().splitlines()[:7], "", "qqq"]
    source.write_text("\n".join(lines) + "\n")
    words = ("translate", LEARNED, "--input", source, "--beam", beam, "--format", "jsonl")
    out, err = run(*words, "--terms", glossary)
    rows, free = ([json.loads(line) for line in text.splitlines()] for text in (out, run(*words)[0]))
    with_terms = 0
    for line, row, plain in zip(lines, rows, free, strict=True):
        texts = [each["text"] for each in row["hypotheses"]]
        wanted = pairs.required(line)
        if line == "qqq":
            assert row["missing_terms"] == ["Ω"]
        else:
            assert row["missing_terms"] == []
            assert all(contains(text, term) for text in texts for term in wanted)
            with_terms += len(wanted)
        if not wanted:
            assert texts == [each["text"] for each in plain["hypotheses"]]
        assert "missing_terms" not in plain
    assert with_terms > 1
    assert "warning: 1 of 9 translations lack a term of --terms" in err
    assert "(lines 9)" in err
    model = posnmt.load(LEARNED)
    spoken = dict(pairs.pairs)
    best = [row["hypotheses"][0]["text"] if row["hypotheses"] else "" for row in rows]
    assert model.translate(lines, beam=int(beam), terms=spoken) == best
    glossary.write_text("xyzzy\tnie\n")
    assert [json.loads(line)["hypotheses"] for line in run(*words, "--terms", glossary)[0].splitlines()] == [
        row["hypotheses"] for row in free
    ]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--sample",), "not available with samples (--terms)"),
        (("--engine", "ctranslate2"), "not available with CTranslate2 here (--terms)"),
    ],
)
def test_what_has_no_terms(glossary, tmp_path, options, fault):
    source = tmp_path / "source"
    source.write_text(DEV.read_text())
    [line] = refused("translate", LEARNED, "--input", source, "--terms", glossary, *options)
    assert fault in line


def test_terms_of_prefixes():
    assert ends_with("Das alte  Haus", "Haus")
    assert ends_with("maschinelle Übersetzung ", "Maschinelle Übersetzung")
    assert not ends_with("Das Haus ist", "Haus")
    assert not ends_with("Das Rathaus", "haus")
    assert not ends_with("", "Haus")


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prefix_that_ends_with_a_term_does_not_go_on_as_another_word(beam):
    model, lines = posnmt.load(LEARNED), DEV.read_text().splitlines()[:6]
    prefixes, spoken = ["die Zug"] * 6, {"uns": "Zug"}
    assert [line.startswith("uns ") for line in lines] == [True] * 2 + [False] * 4
    free = model.translate(lines, prefixes=prefixes, beam=beam)
    assert not all(contains(text, "Zug") for text in free[:2])
    one, two, *others = model.translate(lines, prefixes=prefixes, terms=spoken, beam=beam)
    assert all(text.startswith("die Zug") and contains(text, "Zug") for text in (one, two))
    assert others == free[2:], "these lines have no term"
    inside = ["die Zug ", "ein Zug in"]
    begun = [model.translate(lines[:1], prefixes=[each], terms=spoken, beam=beam)[0] for each in inside]
    assert contains(begun[0], "Zug")
    assert begun[1] == model.translate(lines[:1], prefixes=inside[1:], beam=beam)[0], "it ends with another word"
    with pytest.raises(UserError, match=r"not available with samples \(terms\)"):
        model.translate(lines, prefixes=prefixes, terms=spoken, sampling={})


def test_a_glossary_is_not_written_over(glossary):
    [line] = refused("translate", LEARNED, "--input", DEV, "--terms", glossary, "--output", glossary, "--force")
    assert "would replace the input" in line
