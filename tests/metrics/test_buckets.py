"""Words in buckets: against compare-mt's counts as plain loops, and what numbers and names are."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from posnmt.metrics.buckets import FREQUENCIES, NUMBER, Buckets, by_frequency, by_part, kept, names_of, scores

WORDS = [f"w{number}" for number in range(30)]
CUTOFFS = (1, 2, 3, 4, 5, 10, 100, 1000)
"""compare-mt's defaults: its buckets begin below 1, then at each of these."""


def text(seed, lines=40):
    draw = random.Random(seed)
    weights = [1 / (1 + number) for number in range(len(WORDS))]
    return [draw.choices(WORDS, weights, k=draw.randrange(0, 14)) for _ in range(lines)]


def compare_mt(reference, output, bucket):
    """Shared, reference and output words of each bucket as compare_mt/bucketers.py counts them."""
    shared, of_reference, of_output = Counter(), Counter(), Counter()
    for ref_sent, out_sent in zip(reference, output, strict=True):
        ref_pos = defaultdict(list)
        for place, word in enumerate(ref_sent):
            ref_pos[word].append(place)
            of_reference[bucket(word)] += 1
        counts = Counter()
        for word in out_sent:
            if counts[word] < len(ref_pos[word]):
                shared[bucket(word)] += 1
            counts[word] += 1
            of_output[bucket(word)] += 1
    return shared, of_reference, of_output


@pytest.mark.parametrize("trained", [False, True], ids=["reference", "training text"])
def test_f1_by_frequency_is_that_of_compare_mt(trained):
    reference, systems = text(1), [text(2), text(3), text(1)]
    frequencies = Counter(word for line in (text(9, 200) if trained else reference) for word in line)
    found = by_frequency(systems, reference, frequencies, (0, *CUTOFFS))
    sums = found.counts.sum(axis=0)
    measured = scores(sums)

    def bucket(word):
        return next((place for place, cutoff in enumerate(CUTOFFS) if frequencies[word] < cutoff), len(CUTOFFS))

    for row, output in enumerate(systems):
        shared, of_reference, of_output = compare_mt(reference, output, bucket)
        for place in range(len(CUTOFFS) + 1):
            assert sums[row, place].tolist() == [shared[place], of_reference[place], of_output[place]]
            if of_reference[place] and of_output[place]:
                recall, precision = shared[place] / of_reference[place], shared[place] / of_output[place]
                f1 = 2 * precision * recall / (precision + recall) if shared[place] else 0.0
                expected = (100 * f1, 100 * recall, 100 * precision)
                assert tuple(measured[name][row, place] for name in measured) == pytest.approx(expected)
    assert measured["f1"][2][sums[2, :, 1] > 0] == pytest.approx(100)


def test_counts_add_up_and_labels_are_ranges():
    found = by_frequency([text(2)], text(1), Counter({"w0": 12, "w1": 1}))
    assert found.labels == ["0", "1", "2-4", "5-9", "10-99", "100-999", "1000-"]
    assert found.counts[..., 1].sum() == sum(map(len, text(1)))
    assert found.counts[..., 2].sum() == sum(map(len, text(2)))
    left_out = by_frequency([text(2)], text(1), Counter({"w0": 12, "w1": 1}), FREQUENCIES[1:])
    assert (left_out.counts == found.counts[:, :, 1:]).all()
    assert found.measures == ("f1", "recall", "precision")


def test_recall_by_part_is_that_of_loops():
    reference, output = text(4), text(5)
    found = by_part([output], reference)
    expected = np.zeros((40, 3, 2))
    for row, (line, other) in enumerate(zip(reference, output, strict=True)):
        for place, word in enumerate(line):
            part = next(each for each in range(3) if (place + 0.5) / len(line) < (each + 1) / 3)
            share = min(line.count(word), other.count(word)) / line.count(word)
            expected[row, part] += share, 1
    assert found.counts[:, 0, :, :2] == pytest.approx(expected, abs=1e-6)
    assert (found.counts * 2**24 % 1 == 0).all(), "sums are exact"
    assert found.measures == ("recall",)


def test_an_output_that_stops_early_lacks_the_end():
    reference = [[f"{row} {place}" for place in range(9)] for row in range(3)]
    sums = by_part([[line[:6] for line in reference]], reference).counts.sum(axis=0)
    assert scores(sums)["recall"][0].tolist() == [100, 100, 0]


@pytest.mark.parametrize(
    ("source", "reference", "names"),
    [
        ("Gestern sah Anna das Haus in Berlin .", "Yesterday Anna saw the house in Berlin .", ["Anna", "Berlin"]),
        ("Anna kam .", "Anna came .", []),  # it begins the line
        ("Er kam . „Anna ging.“", "He came . “Anna left.”", []),  # it begins a sentence
        ("Das Haus ist alt .", "The Haus is old .", ["Haus"]),
        ("in Paris und in Paris", "in Paris and in Paris", ["Paris", "Paris"]),
        ("der iPhone-Preis", "the iPhone price", []),  # another word in the source
        ("das iPhone kostet", "the iPhone costs", ["iPhone"]),
        ("so in an", "so in an", []),  # no capital letter
        ("私はPythonが好き", "I like Python", ["Python"]),
        ("Он живёт в Москве", "He lives in Moscow", []),  # transliterated
        ("bei Müller’s", "at Müller’s", ["Müller’s"]),
        ("", "", []),
    ],
)
def test_names_are_capitalised_words_that_the_source_has(source, reference, names):
    assert names_of(source, reference) == names


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("In 1984 it cost 1,000.50 or 3 %", ["1984", "1,000.50", "3"]), ("at 12:30, 7.", ["12:30", "7"]),
        ("十二 and ٣ and three", ["٣"]), ("A380 2-3", ["380", "2", "3"]), ("1’000", ["1’000"]),
    ],
)  # fmt: skip
def test_numbers_are_runs_of_digits(line, numbers):
    assert NUMBER.findall(line) == numbers


def test_kept_counts_each_occurrence_once():
    source = ["am 3. Mai sah Anna 3 Katzen", "nichts"]
    reference = ["on 3 May Anna saw 3 cats", "nothing"]
    outputs = [["on 3 May Anna saw Anna", "3 Anna"], ["", ""], ["3 3 3 anna", ""]]
    found = kept(source, reference, outputs)
    assert found.labels == ("numbers", "names")
    assert found.counts[0, :, :, :2].tolist() == [[[1, 2], [1, 1]], [[0, 2], [0, 1]], [[2, 2], [0, 1]]]
    assert found.counts[1].sum() == 0


def test_buckets_without_words_have_no_score():
    empty = kept(["", "ja"], ["", "yes"], [["", "yes"]])
    measured = scores(empty.counts.sum(axis=0))
    assert np.isnan(measured["recall"]).all()
    words = Buckets(["a"], np.array([[[[0, 0, 5]]]], dtype=float))
    assert [np.isnan(each).all() for each in scores(words.counts.sum(axis=0)).values()] == [True, True, False]
