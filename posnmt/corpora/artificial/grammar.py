"""The grammar of the built-in language pair: trees, and the sentence pair and word alignment of a tree.

The source is subject-verb-object without inflection; the target is verb-final with inflection. One traversal of the
tree, in source order, writes the source words and returns each constituent's target words with their source positions;
the parts of a constituent are then joined in target order. A tree has one translation, and the source is unambiguous
(each choice is determined by the next word), so a source sentence has one reference.

Source rules, where [x] is optional and x* is any number of x:

    sentence  = clause (sa|ma clause)*
    clause    = nouns predicate [do predicate]
    predicate = [pa|fu] verb [nouns] [adverb] (preposition nouns)* [ke clause]
    nouns     = noun (e noun)*
    noun      = name | article [numeral] noun adjective* [relative] [di noun]
    relative  = ki predicate [do predicate] ka | ki nouns predicate-without-object ka

Target rules; suffixes are joined to their stems:

    sentence  = clause (ko|an clause)*
    clause    = nouns-nominative predicate [ath predicate]
    predicate = (nouns-oblique postposition)* [adverb] [nouns-accusative] [clause noth] verb-tense-class-number
    nouns     = noun (uth noun)*
    noun      = name-case | [relative] [noun-genitive] [numeral measure] adjective-class* noun-definite-plural-case

where the target has postpositional phrases and adjectives in reversed order, and the last verb of a relative clause has
the adnominal suffix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from posnmt.corpora.artificial.lexicon import Word

Tense = Literal["present", "past", "future"]
Case = Literal["nominative", "accusative", "oblique", "genitive"]

# Source function words: one syllable, so that they never equal a stem.
ARTICLES = {(True, False): "lo", (True, True): "los", (False, False): "un", (False, True): "uns"}
"""(definite, plural) → article."""
TENSES: dict[Tense, str] = {"past": "pa", "future": "fu"}
AND_NOUNS, AND_PREDICATES, AND_CLAUSES = "e", "do", ("sa", "ma")
OF, THAT, RELATIVE_OPEN, RELATIVE_CLOSE = "di", "ke", "ki", "ka"

# Target function words and suffixes. Stems end in a consonant and suffixes begin with a vowel.
TARGET_AND_NOUNS, TARGET_AND_PREDICATES, TARGET_AND_CLAUSES, QUOTATIVE = "uth", "ath", ("ko", "an"), "noth"
MEASURES = ("nal", "thok", "bur")
CASES: dict[Case, str] = {"nominative": "a", "accusative": "ok", "oblique": "us", "genitive": "ir"}
DEFINITE, PLURAL_NOUN = "el", "im"
TENSE_SUFFIXES: dict[Tense, str] = {"present": "", "past": "od", "future": "esh"}
CLASS_SUFFIXES = ("a", "i", "u")
NUMBER_SUFFIXES = {False: "n", True: "r"}
ADNOMINAL = "em"

Aligned = list[tuple[str, tuple[int, ...]]]
"""Target words in order, each with its source positions."""


@dataclass(slots=True)
class Noun:
    """A name, or a noun with its modifiers. A name has only `word`."""

    word: Word
    plural: bool = False
    definite: bool = True
    numeral: Word | None = None
    adjectives: Sequence[Word] = ()
    relative: Relative | None = None
    possessor: Noun | None = None


Nouns = Sequence[Noun]
"""One noun, or several joined by 'and'."""


@dataclass(slots=True)
class Predicate:
    """A verb with its arguments. `complement` is for verbs of speech, `object` for transitive verbs."""

    verb: Word
    tense: Tense = "present"
    object: Nouns = ()
    adverb: Word | None = None
    adjuncts: Sequence[tuple[Word, Nouns]] = ()
    complement: Clause | None = None


@dataclass(slots=True)
class Clause:
    """A subject with one predicate, or two joined by 'and'."""

    subject: Nouns
    predicates: Sequence[Predicate]


@dataclass(slots=True)
class Relative:
    """A clause that modifies a noun, which is its subject, or the object of its verb if it has a subject."""

    subject: Nouns
    predicates: Sequence[Predicate]


@dataclass(slots=True)
class Sentence:
    """Clauses, and the conjunction before each clause after the first: 0 'and', 1 'but'."""

    clauses: Sequence[Clause]
    conjunctions: Sequence[int] = ()


@dataclass(frozen=True)
class Pair:
    """A sentence, its one reference, and their exact word alignment.

    Attributes:
        source, target: words separated by single spaces.
        alignment: (source position, target position) pairs, 0-based, sorted; covers every word of both sides.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]

    @cached_property
    def source_length(self) -> int:
        """The number of words in the source sentence."""
        return self.source.count(" ") + 1

    @cached_property
    def target_length(self) -> int:
        """The number of words in the target sentence."""
        return self.target.count(" ") + 1

    @cached_property
    def displacements(self) -> tuple[int, ...]:
        """For each source word, the number of places that it moves if the source is put into target order.

        Words that share a target word keep their order. Unlike |i - j| of the alignment this measures order only: it is
        0 in a sentence that is translated word by word even if the two sides differ in length.
        """
        first = dict(reversed(self.alignment))
        order = sorted(range(self.source_length), key=first.__getitem__)  # stable
        moved = [0] * len(order)
        for place, position in enumerate(order):
            moved[position] = abs(place - position)
        return tuple(moved)

    @property
    def mean_displacement(self) -> float:
        """The mean of `displacements`: how many words a target word moved on average."""
        return sum(self.displacements) / self.source_length

    @property
    def max_displacement(self) -> int:
        """The largest of `displacements`: how many words one target word moved at most."""
        return max(self.displacements)

    @property
    def pharaoh(self) -> str:
        """The alignment in Pharaoh format: `0-0 1-2 …`."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment)


def translate(sentence: Sentence) -> Pair:
    """The source sentence of a tree, its translation and the alignment of the two."""
    source: list[str] = []
    aligned = _sentence(sentence, source)
    links = sorted((i, j) for j, (_, positions) in enumerate(aligned) for i in positions)
    return Pair(" ".join(source), " ".join(form for form, _ in aligned), tuple(links))


def agreement(nouns: Nouns) -> tuple[int, bool]:
    """(class, plural) of one or several nouns: several are plural, and living unless all have the same class."""
    first = nouns[0]
    if len(nouns) == 1:
        return first.word.noun_class, first.plural
    same = all(noun.word.noun_class == first.word.noun_class for noun in nouns)
    return (first.word.noun_class if same else 0), True


def _say(source: list[str], word: str) -> int:
    """Append a source word; return its position."""
    source.append(word)
    return len(source) - 1


def _sentence(sentence: Sentence, source: list[str]) -> Aligned:
    target = _clause(sentence.clauses[0], source)
    for which, clause in zip(sentence.conjunctions, sentence.clauses[1:], strict=True):
        target.append((TARGET_AND_CLAUSES[which], (_say(source, AND_CLAUSES[which]),)))
        target += _clause(clause, source)
    return target


def _clause(clause: Clause, source: list[str]) -> Aligned:
    target = _nouns(clause.subject, "nominative", source)
    return target + _predicates(clause.predicates, agreement(clause.subject), source)


def _predicates(
    predicates: Sequence[Predicate], subject: tuple[int, bool], source: list[str], head: Noun | None = None
) -> Aligned:
    """Predicates of one subject. `head`: the noun outside a relative clause that is their object."""
    target: Aligned = []
    for index, predicate in enumerate(predicates):
        if index:
            target.append((TARGET_AND_PREDICATES, (_say(source, AND_PREDICATES),)))
        target += _predicate(predicate, subject, source, head)
    return target


def _predicate(predicate: Predicate, subject: tuple[int, bool], source: list[str], head: Noun | None) -> Aligned:
    positions: tuple[int, ...] = ()
    if predicate.tense != "present":
        positions = (_say(source, TENSES[predicate.tense]),)
    positions += (_say(source, predicate.verb.source),)
    nouns = _nouns(predicate.object, "accusative", source)
    adverb: Aligned = []
    if predicate.adverb is not None:
        adverb.append((predicate.adverb.targets[0], (_say(source, predicate.adverb.source),)))
    adjuncts: list[Aligned] = []
    for preposition, inside in predicate.adjuncts:
        at = _say(source, preposition.source)
        adjuncts.append([*_nouns(inside, "oblique", source), (preposition.targets[0], (at,))])
    target = [pair for adjunct in reversed(adjuncts) for pair in adjunct]
    target += adverb
    target += nouns
    if predicate.complement is not None:
        at = _say(source, THAT)
        target += _clause(predicate.complement, source)
        target.append((QUOTATIVE, (at,)))
    objects = predicate.object if head is None else (head,)
    sense = agreement(objects)[0] if objects else 0
    noun_class, plural = subject
    suffixes = TENSE_SUFFIXES[predicate.tense] + CLASS_SUFFIXES[noun_class] + NUMBER_SUFFIXES[plural]
    target.append((predicate.verb.targets[sense] + suffixes, positions))
    return target


def _nouns(nouns: Nouns, case: Case, source: list[str]) -> Aligned:
    target: Aligned = []
    for index, noun in enumerate(nouns):
        if index:
            target.append((TARGET_AND_NOUNS, (_say(source, AND_NOUNS),)))
        target += _noun(noun, case, source)
    return target


def _noun(noun: Noun, case: Case, source: list[str], of: tuple[int, ...] = ()) -> Aligned:
    """A noun with its modifiers; `of`: position of the 'of' before it, which its genitive suffix translates."""
    word = noun.word
    if word.name:
        return [(word.targets[0] + CASES[case], (*of, _say(source, word.source)))]
    positions = (*of, _say(source, ARTICLES[noun.definite, noun.plural]))
    counted: Aligned = []
    if noun.numeral is not None:
        at = (_say(source, noun.numeral.source),)
        counted = [(noun.numeral.targets[0], at), (MEASURES[word.noun_class], at)]
    positions += (_say(source, word.source),)
    adjectives: Aligned = []
    for adjective in noun.adjectives:
        form = adjective.targets[word.noun_class] + CLASS_SUFFIXES[word.noun_class]
        adjectives.append((form, (_say(source, adjective.source),)))
    target = _relative(noun.relative, noun, source) if noun.relative is not None else []
    if noun.possessor is not None:
        target += _noun(noun.possessor, "genitive", source, (_say(source, OF),))
    target += counted
    target += reversed(adjectives)
    suffixes = (DEFINITE if noun.definite else "") + (PLURAL_NOUN if noun.plural else "") + CASES[case]
    target.append((word.targets[0] + suffixes, positions))
    return target


def _relative(relative: Relative, head: Noun, source: list[str]) -> Aligned:
    """A relative clause; both its brackets are aligned to the adnominal suffix of its last verb."""
    opening = _say(source, RELATIVE_OPEN)
    if relative.subject:
        target = _nouns(relative.subject, "nominative", source)
        target += _predicates(relative.predicates, agreement(relative.subject), source, head)
    else:
        target = _predicates(relative.predicates, agreement((head,)), source)
    closing = _say(source, RELATIVE_CLOSE)
    form, positions = target[-1]
    target[-1] = (form + ADNOMINAL, (opening, *positions, closing))
    return target
