"""Lines of text that translators lose, join or choke on."""

from __future__ import annotations

PIECES = [
    # white space, and what other programs take for ends of lines
    " ", "\t", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2060", "\x0b", "\x0c", "\x1c", "\x1e", "\x85",
    "\u2028", "\u2029", "\ufeff",
    # control and direction
    "\x01", "\x07", "\x08", "\x1b[31m", "\x7f", "\u200e", "\u200f", "\u202e", "\u2066", "\u2069", "\u00ad",
    "\U000e0041",
    # combining, joined and decomposed characters, emoji
    "\u0301", "e\u0301\u0301\u0301\u0301", "a" + "\u0300" * 40, "\u200d", "\ufe0f", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u1100\u1161\u11a8", "\ufb01", "\uff21\uff22",
    "\u2460", "\u00bd", "\u0130", "\u1e9e",
    # scripts
    "日本語。", "中文，字", "ภาษาไทย", "한국어", "العربية", "עברית", "हिन्दी", "ქართული", "Ελλ", "٣٤",
    "\U00020000", "\U00010348",
    # not characters, or not yet
    "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\u0378",
    # signs of subword models, tokenisers and formats
    "▁", "▁▁", "<s>", "</s>", "<unk>", "<pad>", "⁇", "@@", "@-@", "\uffed", "<2de>", "<mask>", "&amp;",
    "&lt;b&gt;", "<b>", "|||", "|", "\\n", "\\",
    "\"", "'", "`", "{}", "{0}", "%s", "$HOME", "${x}", "#", "//", "--", "-", "...", "…", "?!", "((",
    "[[", "null", "NaN", "-0", "1e999", "0x1F",
    "http://a.example/?b=c&d#e", "a@b.example", "C:\\x", "/etc/passwd", "x" * 300, "ab" * 200, "1" * 100,
    ". " * 60, "lo dumo " * 30,
]  # fmt: skip

LINES = [line for piece in PIECES for line in (piece, f"lo {piece} dumo", f"lo du{piece}mo")]
"""Each alone, between words, and inside a word."""
