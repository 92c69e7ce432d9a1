"""The built-in language pair: golden trees, an independent translator, exact lengths, controlled reordering."""

import re
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from posnmt.base.errors import UserError, UserErrors
from posnmt.corpora.artificial import pairs as artificial
from posnmt.corpora.artificial.grammar import Clause, Noun, Pair, Predicate, Relative, Sentence, agreement, translate
from posnmt.corpora.artificial.growth import CORE, SHORTEST
from posnmt.corpora.artificial.lexicon import Word, make_lexicon
from posnmt.corpora.artificial.pairs import Split, corpus, generate, statistics
from tests.support.artificial_reader import Reader

REORDERINGS = ["short", "mixed", "long", 0.3]


def plain(source, target, noun_class=0, name=False):
    return Word(source, (target, target, target), noun_class, name)


# A lexicon of its own, so that the golden sentences below change with the grammar only.
PERSON, ROPE, STONE = plain("balo", "kethun"), plain("dire", "wosham", 1), plain("gumi", "yalik", 2)
ANA = plain("Zuna", "Jothel", name=True)
OLD, BIG = Word("rova", ("hunis", "tekush", "tekush")), plain("pilu", "shawen")
THREE, SOON, IN = plain("tevi", "ruthas"), plain("nalu", "kosim"), plain("subi", "nethak")
RUN, SAY = plain("moge", "wukath"), plain("lari", "joshin")
TAKE = Word("vupa", ("rakun", "thisol", "thisol"))


def golden(sentence, source, target, alignment):
    assert translate(sentence) == Pair(source, target, tuple(tuple(map(int, x.split("-"))) for x in alignment.split()))


def one(subject, *predicates):
    return Sentence([Clause(subject, predicates)])


def test_golden_shortest():
    golden(one([Noun(ANA)], Predicate(RUN)), "Zuna moge", "Jothela wukathan", "0-0 1-1")


def test_golden_object_before_verb_and_adjuncts_mirrored():
    predicate = Predicate(
        TAKE, "past", [Noun(ROPE, definite=False)], SOON, [(IN, [Noun(STONE)]), (IN, [Noun(ANA), Noun(PERSON)])]
    )
    golden(
        one([Noun(PERSON, plural=True)], predicate),
        "los balo pa vupa un dire nalu subi lo gumi subi Zuna e lo balo",
        "kethunelima Jothelus uth kethunelus nethak yalikelus nethak kosim woshamok thisolodar",
        "0-0 1-0 2-9 3-9 4-8 5-8 6-7 7-6 8-5 9-5 10-4 11-1 12-2 13-3 14-3",
    )


def test_golden_noun_with_everything():
    noun = Noun(
        STONE, True, False, THREE, [OLD, BIG], Relative([Noun(ANA)], [Predicate(TAKE, "future")]), Noun(PERSON, True)
    )
    golden(
        one([noun], Predicate(RUN)),
        "uns tevi gumi rova pilu ki Zuna fu vupa ka di los balo moge",
        "Jothela thisoleshanem kethunelimir ruthas bur shawenu tekushu yalikima wukathur",
        "0-7 1-3 1-4 2-7 3-6 4-5 5-1 6-0 7-1 8-1 9-1 10-2 11-2 12-2 13-8",
    )


def test_golden_relative_clause_about_the_subject():
    relative = Relative((), [Predicate(RUN), Predicate(TAKE, object=[Noun(ROPE)])])
    golden(
        one([Noun(ROPE, relative=relative)], Predicate(RUN, "past")),
        "lo dire ki moge do vupa lo dire ka pa moge",
        "wukathin ath woshamelok thisolinem woshamela wukathodin",
        "0-4 1-4 2-3 3-0 4-1 5-3 6-2 7-2 8-3 9-5 10-5",
    )


def test_golden_verb_final_in_quoted_speech_too():
    inner = Clause([Noun(ROPE)], [Predicate(TAKE, object=[Noun(ROPE), Noun(STONE)])])
    golden(
        one([Noun(ANA)], Predicate(RUN), Predicate(SAY, adverb=SOON, complement=inner)),
        "Zuna moge do lari nalu ke lo dire vupa lo dire e lo gumi",
        "Jothela wukathan ath kosim woshamela woshamelok uth yalikelok rakunin noth joshinan",
        "0-0 1-1 2-2 3-10 4-3 5-9 6-4 7-4 8-8 9-5 10-5 11-6 12-7 13-7",
    )


def test_golden_clauses_side_by_side():
    run = Clause([Noun(ANA), Noun(ANA)], [Predicate(RUN)])
    golden(
        Sentence([run, run, run], [0, 1]),
        "Zuna e Zuna moge sa Zuna e Zuna moge ma Zuna e Zuna moge",
        "Jothela uth Jothela wukathar ko Jothela uth Jothela wukathar an Jothela uth Jothela wukathar",
        " ".join(f"{i}-{i}" for i in range(14)),
    )


def test_golden_random_sentences():
    """These change only when the language or the random draws change: then results stop being comparable."""
    assert [(pair.source, pair.target) for pair in generate(2, 3, 14, 1)] == GOLDEN_DRAWS


GOLDEN_DRAWS = [
    ("lo gubo poli zabi sa lo favo leve Sevo", "wusami jikonela kurikin ko wekethela Nawathok runuthan"),
    (
        "lo bila mipe sele fu vide Bevu mera do lobi Puni",
        "hawuni huthumi rukashela toshuth Thewoshok thewemeshin ath Keshemok kihishin",
    ),
]


@pytest.mark.parametrize(
    ("nouns", "expected"),
    [
        ([Noun(ROPE)], (1, False)),
        ([Noun(ROPE, plural=True)], (1, True)),
        ([Noun(ROPE), Noun(ROPE)], (1, True)),
        ([Noun(STONE), Noun(ROPE)], (0, True)),
        ([Noun(ANA), Noun(ROPE)], (0, True)),
    ],
)
def test_agreement(nouns, expected):
    assert agreement(nouns) == expected


@pytest.mark.parametrize("reordering", REORDERINGS)
@pytest.mark.parametrize(("minimum", "maximum", "count"), [(2, 14, 1500), (30, 60, 150), (800, 1000, 3)])
def test_reader_finds_the_same_translation_and_alignment(reordering, minimum, maximum, count):
    lexicon = make_lexicon(80)
    reader = Reader(lexicon)
    for pair in generate(count, minimum, maximum, 5, reordering=reordering, lexicon=lexicon):
        assert reader.translate(pair.source) == pair


DOCUMENTATION = Path(__file__).parents[2] / "docs" / "artificial.md"


def test_documentation_shows_real_sentences():
    reader = Reader(make_lexicon())
    examples = re.findall(r"```text\n(.+?)\n```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 6
    for example in examples:
        source, _, target, _, moves = (line.split()[1:] for line in example.split("\n"))
        pair = reader.translate(" ".join(source))
        assert pair.target.split(" ") == target
        assert pair.displacements == tuple(map(int, moves))


def test_documentation_shows_real_displacements():
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 6
    for length, *shown in rows:
        sets = [generate(100, int(length), int(length), 1, reordering=name) for name in ("short", "mixed", "long")]
        assert [f"{statistics(pairs)['displacement']['mean']:.1f}" for pairs in sets] == shown


@pytest.mark.parametrize("reordering", REORDERINGS)
def test_every_length_is_hit_exactly(reordering):
    for length in [*range(SHORTEST, 45), 100, 333, 2000]:
        for pair in generate(3, length, length, 1, reordering=reordering):
            assert len(pair.source.split(" ")) == length == pair.source_length
            assert len(pair.target.split(" ")) == pair.target_length


def test_lengths_are_uniform_or_weighted():
    lengths = [pair.source_length for pair in generate(6000, 5, 10, 1)]
    assert all(abs(lengths.count(length) - 1000) < 150 for length in range(5, 11))
    lengths = [pair.source_length for pair in generate(4000, 5, 10, 1, weights={6: 3.0, 9: 1.0})]
    assert set(lengths) == {6, 9}
    assert abs(lengths.count(6) - 3000) < 150


@pytest.mark.parametrize("reordering", REORDERINGS)
def test_alignment_covers_every_word_and_content_words_translate_along_it(reordering):
    lexicon = make_lexicon()
    stems = {word.source: set(word.targets) for _, word in lexicon.categories()}
    for pair in generate(200, 2, 40, 2, reordering=reordering, lexicon=lexicon):
        source, target = pair.source.split(" "), pair.target.split(" ")
        assert {i for i, _ in pair.alignment} == set(range(len(source)))
        assert {j for _, j in pair.alignment} == set(range(len(target)))
        assert list(pair.alignment) == sorted(set(pair.alignment))
        for position, word in enumerate(source):
            if word in stems:
                forms = [target[j] for i, j in pair.alignment if i == position]
                assert any(form.startswith(stem) for form in forms for stem in stems[word]), (pair, word)


def test_pharaoh_format():
    pair = Pair("a b", "x y z", ((0, 2), (1, 0), (1, 1)))
    assert pair.pharaoh == "0-2 1-0 1-1"


def test_target_is_verb_final():
    lexicon = make_lexicon()
    verbs = tuple(
        {stem for word in lexicon.intransitive + lexicon.transitive + lexicon.speech for stem in word.targets}
    )
    for pair in generate(300, 10, 30, 3, reordering="long", lexicon=lexicon):
        target = pair.target.split(" ")
        assert target[-1].startswith(verbs)
        assert all(target[at - 1].startswith(verbs) for at, word in enumerate(target) if word in ("noth", "ath"))


def test_displacement_counts_order_alone():
    assert Pair("a b c", "x y z", ((0, 2), (1, 1), (2, 0))).displacements == (2, 0, 2)
    # Many to one and one to many: lengths differ, the order does not.
    monotone = Pair("a b c d", "x y z", ((0, 0), (1, 0), (2, 0), (3, 1), (3, 2)))
    assert monotone.displacements == (0, 0, 0, 0)
    moved = Pair("a b c d", "x y", ((0, 0), (1, 1), (2, 1), (3, 0)))
    assert moved.displacements == (0, 1, 1, 2)
    assert (moved.mean_displacement, moved.max_displacement) == (1.0, 2)


def displacement(length, reordering, count=30):
    pairs = list(generate(count, length, length, 4, reordering=reordering))
    return fmean(pair.mean_displacement for pair in pairs), max(pair.max_displacement for pair in pairs)


def test_displacement_grows_with_length_when_long_and_stays_when_short():
    long = [displacement(length, "long")[0] for length in (10, 20, 40, 80, 160)]
    assert all(after > 1.5 * before for before, after in pairwise(long))
    short = [displacement(length, "short") for length in (10, 20, 40, 80, 160, 320)]
    assert max(largest for _, largest in short) < CORE
    assert max(mean for mean, _ in short) < 2


def test_displacement_grows_with_the_share():
    means = [displacement(60, share)[0] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert means == sorted(means)
    assert means[-1] > 4 * means[0]
    assert displacement(60, "short") == displacement(60, 0.0) == displacement(60, "0")


def test_same_seed_same_pairs_other_seed_others():
    assert list(generate(50, 3, 20, 1)) == list(generate(50, 3, 20, 1))
    assert not {pair.source for pair in generate(50, 6, 20, 1)} & {pair.source for pair in generate(50, 6, 20, 2)}


def test_sources_are_distinct_and_exclusions_hold():
    pairs = list(generate(3000, 2, 5, 1))
    sources = {pair.source for pair in pairs}
    assert len(sources) == 3000
    assert not sources & {pair.source for pair in generate(1000, 2, 5, 1, exclude=sources)}


def test_sets_that_fill_the_whole_space_are_still_disjoint():
    """There are 80 sentences of 2 words, so that 60 and 20 of them are all only if none is in both sets."""
    sets = corpus({"train": Split(60, 2, 2), "test": Split(20, 2, 2)}, 1)
    assert {name: len(pairs) for name, pairs in sets.items()} == {"train": 60, "test": 20}
    assert len({pair.source for pairs in sets.values() for pair in pairs}) == 80


def test_a_used_up_length_leaves_the_rest_to_the_others():
    lengths = [pair.source_length for pair in generate(2000, 2, 4, 1, lexicon=40)]
    lexicon = make_lexicon(40)
    assert lengths.count(2) == len(lexicon.names) * len(lexicon.intransitive)
    assert len(lengths) == 2000


def test_too_few_different_sentences():
    with pytest.raises(UserError, match=r"only 80 different sentences of 2 to 2 words, and 500 are requested"):
        list(generate(500, 2, 2, 1))
    with pytest.raises(UserError, match=r"^train: there are only \d+ different"):
        corpus({"train": Split(70, 2, 2), "test": Split(20, 2, 2)}, 1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 3, 5, 1), {}, "must be 1 or more, not 0"),
        ((5, 1, 5, 1), {}, r"has 2 words, not 1.*set the shortest length to 2"),
        ((5, 6, 5, 1), {}, "longest length, 5, is below the shortest, 6"),
        ((5, 3, 5, 1), {"reordering": "far"}, "short, long, mixed, or a number from 0 to 1, not 'far'"),
        ((5, 3, 5, 1), {"reordering": 1.5}, "number from 0 to 1, not 1.5"),
        ((5, 3, 5, 1), {"reordering": "nan"}, "not 'nan'"),
        ((5, 3, 5, 1), {"lexicon": 10}, "40 to 20000 words, not 10"),
        ((5, 3, 5, 1), {"weights": {9: 1.0}}, "weights of lengths 3 to 5"),
        ((5, 3, 5, 1), {"weights": {3: 1.0, 4: -1.0}}, "weights of lengths 3 to 5"),
    ],
)
def test_mistakes_are_said_at_once(arguments, options, message):
    with pytest.raises(UserError, match=message):
        generate(*arguments, **options)  # not iterated


def test_a_corpus_lists_all_faults():
    with pytest.raises(UserErrors) as caught:
        corpus({"train": Split(0, 3, 5), "test": Split(5, 1, 0)}, 1)
    assert [line.split(":")[0] for line in caught.value.lines] == ["train", "test", "test"]


def test_patience_is_what_ends_a_length(monkeypatch):
    """A length is given up after so many known sentences in a row, not before."""
    monkeypatch.setattr(artificial, "PATIENCE", 1)
    with pytest.raises(UserError) as caught:
        list(generate(80, 2, 2, 1))
    assert int(re.search(r"only (\d+)", str(caught.value))[1]) < 80


@pytest.mark.parametrize("size", [40, 120, 1000, 6000])
def test_lexicon(size):
    lexicon = make_lexicon(size)
    words = [word for _, word in lexicon.categories()]
    assert len(words) == size
    assert lexicon == make_lexicon(size)
    assert lexicon != make_lexicon(size, seed=1)
    assert len({word.source for word in words}) == size
    stems = [stem for word in words for stem in set(word.targets)]
    assert len(stems) == len(set(stems))
    assert not {word.source for word in words} & set(stems)
    # A stem reaches to its last consonant before a third (or fourth) vowel: no ending makes one stem look like another.
    vowels = 2 if size < 2500 else 3
    assert all(re.fullmatch(rf"([^aeiou]+[aeiou]){{{vowels}}}[^aeiou]+", stem.lower()) for stem in stems)
    assert all(len(set(word.targets)) == 1 for word in words if word not in lexicon.transitive + lexicon.adjectives)
    assert any(len(set(word.targets)) == 2 for word in lexicon.transitive)
    assert any(len(set(word.targets)) == 2 for word in lexicon.adjectives)
    assert {noun.noun_class for noun in lexicon.nouns} == {0, 1, 2}
