"""Paragraphs of an invented language pair, whose words translate each other one by one, for tests of completeness."""

import random

WORDS = [f"{a}{b}{c}" for a in "bdgk" for b in "aeiou" for c in ("lom", "rin", "sut")]
NUMBER = {word: number for number, word in enumerate(WORDS)}


def translated(sentence):
    """A sentence in the other language; neighbouring words have changed places."""
    words = [f"X{'aeiou'[NUMBER[word] % 5]}{'lmnrst'[NUMBER[word] // 5 % 6]}{NUMBER[word] // 30}q"[::-1].lower()
             for word in sentence.lower().rstrip(".").split()]  # fmt: skip
    for at in range(0, len(words) - 1, 2):
        words[at : at + 2] = words[at : at + 2][::-1]
    return " ".join(words).capitalize() + "."


def sentence(draw):
    """A random sentence."""
    return " ".join(draw.sample(WORDS, draw.randint(5, 9))).capitalize() + "."


def paragraphs(count, sizes=(3,), seed=1):
    """Sentences of paragraphs and their translations: two lists of lists."""
    draw = random.Random(seed)
    sources = [[sentence(draw) for _ in range(draw.choice(sizes))] for _ in range(count)]
    return sources, [[translated(each) for each in of_line] for of_line in sources]


def lines(of_paragraphs):
    """Paragraphs as lines."""
    return [" ".join(each) for each in of_paragraphs]
