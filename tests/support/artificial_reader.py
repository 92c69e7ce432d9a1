"""A second, independent translator of the built-in language pair: the oracle of its tests."""

from posnmt.corpora.artificial.grammar import Pair


class Reader:
    """An independent translator: reads the source word by word, looking one word ahead, and writes the target.

    Written from the rules of docs/artificial.md, with none of the grammar's code or constants. That one word of
    lookahead is enough shows that a source sentence can be read in one way only. A phrase is a list of pairs (target
    word, set of source positions).
    """

    def __init__(self, lexicon):
        self.words = {word.source: (category, word) for category, word in lexicon.categories()}

    def translate(self, source):
        self.tokens, self.at = [*source.split(" "), "."], 0
        target = self.clause()
        while self.next in ("sa", "ma"):
            conjunction = {"sa": "ko", "ma": "an"}[self.next]
            target += [(conjunction, {self.take()}), *self.clause()]
        assert self.next == ".", f"{source!r} cannot be read after word {self.at}"
        links = tuple(sorted((i, j) for j, (_, positions) in enumerate(target) for i in positions))
        return Pair(source, " ".join(word for word, _ in target), links)

    @property
    def next(self):
        return self.tokens[self.at]

    def category(self):
        return self.words.get(self.next, (None, None))[0]

    def take(self):
        self.at += 1
        return self.at - 1

    def clause(self):
        subject, noun_class, number = self.nouns("a")
        return subject + self.predicates(noun_class, number)

    def predicates(self, noun_class, number, head_class=None):
        target = self.predicate(noun_class, number, head_class)
        while self.next == "do":
            target += [("ath", {self.take()}), *self.predicate(noun_class, number, head_class)]
        return target

    def predicate(self, noun_class, number, head_class):
        positions, tense = set(), ""
        if self.next in ("pa", "fu"):
            tense = {"pa": "od", "fu": "esh"}[self.next]
            positions.add(self.take())
        category, verb = self.words[self.next]
        positions.add(self.take())
        middle, quoted, deciding = [], [], head_class
        if category == "transitive" and head_class is None:
            middle, deciding, _ = self.nouns("ok")
        if self.category() == "adverbs":
            middle = [(self.words[self.next][1].targets[0], {self.take()}), *middle]
        while self.category() == "prepositions":
            postposition = (self.words[self.next][1].targets[0], {self.take()})
            middle = [*self.nouns("us")[0], postposition, *middle]
        if category == "speech":
            assert self.next == "ke"
            that = ("noth", {self.take()})
            quoted = [*self.clause(), that]
        stem = verb.targets[deciding if category == "transitive" else 0]
        return [*middle, *quoted, (stem + tense + "aiu"[noun_class] + number, positions)]

    def nouns(self, case):
        target, noun_class, number = self.noun(case)
        while self.next == "e":
            conjunction = ("uth", {self.take()})
            more, other_class, _ = self.noun(case)
            target += [conjunction, *more]
            number = "r"
            noun_class = noun_class if noun_class == other_class else 0
        return target, noun_class, number

    def noun(self, case):
        if self.category() == "names":
            return [(self.words[self.next][1].targets[0] + case, {self.take()})], 0, "n"
        definite, plural = {"lo": ("el", ""), "los": ("el", "im"), "un": ("", ""), "uns": ("", "im")}[self.next]
        positions = {self.take()}
        counted, described, related, owned = [], [], [], []
        numeral = None
        if self.category() == "numerals":
            numeral, at = self.words[self.next][1], self.take()
        category, word = self.words[self.next]
        assert category == "nouns"
        positions.add(self.take())
        if numeral:
            counted = [(numeral.targets[0], {at}), (("nal", "thok", "bur")[word.noun_class], {at})]
        while self.category() == "adjectives":
            stem = self.words[self.next][1].targets[word.noun_class]
            described = [(stem + "aiu"[word.noun_class], {self.take()}), *described]
        number = "r" if plural else "n"
        if self.next == "ki":
            brackets = {self.take()}
            if self.category() == "names" or self.next in ("lo", "los", "un", "uns"):
                subject, subject_class, subject_number = self.nouns("a")
                related = subject + self.predicates(subject_class, subject_number, word.noun_class)
            else:
                related = self.predicates(word.noun_class, number)
            assert self.next == "ka"
            brackets.add(self.take())
            related[-1] = (related[-1][0] + "em", related[-1][1] | brackets)
        if self.next == "di":
            of = self.take()
            owned, _, _ = self.noun("ir")
            owned[-1] = (owned[-1][0], owned[-1][1] | {of})
        target = (word.targets[0] + definite + plural + case, positions)
        return [*related, *owned, *counted, *described, target], word.noun_class, number
