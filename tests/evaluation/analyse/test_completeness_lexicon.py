"""Words in any script, and the lexicon against plain loops."""

import math
import random
from collections import defaultdict

import pytest

from posnmt.evaluation.analyse.completeness import lexicon
from posnmt.evaluation.analyse.completeness.lexicon import DIAGONAL, ITERATIONS, LEAST, learn
from posnmt.evaluation.analyse.completeness.words import LETTERS, function_words, split, words
from tests.support.completeness_case import paragraphs


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("Die Häuser, 1,250 m²", ["die", "haus", "1", "250", "m2"]),
        ("die HÄUSER", ["die", "haus"]),
        ("東京タワーへ", ["東", "京", "タワー", "へ"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("12345 international", ["12345", "international"[:LETTERS]]),
        ("… – !", []),
    ],
)
def test_words_of_any_script(text, forms):
    assert [word.form for word in words(text)] == forms
    assert all(text[word.start].isalnum() or text[word.start] >= "\u0e00" for word in words(text))


def test_function_words_are_the_most_frequent_ones_up_to_their_share():
    texts = [["a"] * 5 + ["b"] * 3, ["c"] * 2]
    assert [set(function_words(texts, share)) for share in (0.0, 0.4, 0.5, 0.79, 0.8)] == [
        set(), set(), {"a"}, {"a"}, {"a", "b"},
    ]  # fmt: skip


def test_a_line_has_the_sentences_of_the_language_and_all_its_words():
    line = split("Er kam am 3. Mai. „Gut!“ …  Dann?", "de")
    assert [len(line.forms[part]) for part in line.parts] == [5, 1, 1]
    assert "".join(line.sentences) == "Er kam am 3. Mai. „Gut!“ …  Dann?"
    assert line.ends[-1] == len(line.forms)
    assert split(" … ", "de").sentences == split("", "de").sentences == []
    assert [len(split("… " + text, "ja").sentences) for text in ("犬だ。猫だ！", "犬")] == [2, 1]


def by_loops(pairs):
    """Model 1 with agreement, one probability at a time."""
    links = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        of_source, of_target = defaultdict(float), defaultdict(float)
        for source, target in {(s, t) for ss, ts in pairs for s in ss for t in ts}:
            of_source[source] += links[source, target]
            of_target[target] += links[source, target]
        new = defaultdict(float)
        for ss, ts in pairs:
            n, m = len(ss), len(ts)
            priors = [[math.exp(-DIAGONAL * abs((i + 0.5) / n - (j + 0.5) / m)) for j in range(m)] for i in range(n)]

            for i, s in enumerate(ss):
                for j, t in enumerate(ts):
                    there = priors[i][j] * links[s, t] / of_source[s]
                    back = priors[i][j] * links[s, t] / of_target[t]
                    all_there = sum(priors[k][j] * links[u, t] / of_source[u] for k, u in enumerate(ss))
                    all_back = sum(priors[i][k] * links[s, u] / of_target[u] for k, u in enumerate(ts))
                    new[s, t] += there / all_there * back / all_back
        links = new
    counts = [defaultdict(int), defaultdict(int)]
    for pair in pairs:
        for side, text in enumerate(pair):
            for form in text:
                counts[side][form] += 1
    return {key: value / math.sqrt(counts[0][key[0]] * counts[1][key[1]]) for key, value in links.items()}


def test_the_lexicon_is_that_of_plain_loops():
    draw = random.Random(2)
    pairs = [(draw.choices("abcde", k=draw.randint(1, 6)), draw.choices("VWXYZ", k=draw.randint(1, 6)))
             for _ in range(6)]  # fmt: skip
    wanted = {key: value for key, value in by_loops(pairs).items() if value >= LEAST}
    strengths = learn([*pairs, ([], []), (["f"], [])]).strengths
    assert {(s, t): v for s, row in strengths.items() for t, v in row.items()} == pytest.approx(wanted, rel=1e-4)


def test_the_lexicon_of_paragraphs_has_the_translations_first():
    sources, targets = paragraphs(150)
    learned = learn(
        (split(" ".join(source), "en").forms, split(" ".join(target), "en").forms)
        for source, target in zip(sources, targets, strict=True)
    )
    rows = split(" ".join(sources[0]), "en").forms
    table = learned.table(rows, split(" ".join(targets[0]), "en").forms)
    assert (table.max(axis=1) > 0.5).mean() > 0.9


def test_equal_forms_translate_each_other_in_an_empty_lexicon():
    table = learn([]).table(["paris", "x", "1984"], ["1984", "paris"])
    assert table.tolist() == [[0, 1], [0, 0], [1, 0]]


def test_lines_beyond_the_limit_are_not_read(monkeypatch):
    monkeypatch.setattr(lexicon, "MOST_CELLS", 8)
    learned = learn([(["a", "b"], ["A", "B"]), (["c", "d"], ["C", "D"]), (["e"], ["E"])])
    assert learned.lines == 2
    assert "e" not in learned.strengths
