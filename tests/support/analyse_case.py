"""Sentences and translations of them that the tests of analyses share."""

from __future__ import annotations

SOURCE = [
    "ein Haus", "der Hund sieht die Katze", "das ist ein kleines Haus am See", "ja", "eins zwei drei vier fünf sechs",
    "a\u2028b c", "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
]  # fmt: skip
REFERENCE = [
    "a house", "the dog sees the cat", "this is a small house by the lake", "yes", "one two three four five six",
    "a\u2028b c", "one two three four five six seven eight nine ten eleven twelve",
]  # fmt: skip
OUTPUT = [
    "a house", "the dog sees a cat", "that is a small house at the lake", "", "one two three four five six",
    "a\u2028b d", "one two three four five six",
]  # fmt: skip
HTML_NAME = '<script>alert("1")</script> & $x_1$'
