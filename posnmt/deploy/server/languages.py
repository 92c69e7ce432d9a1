"""Languages by code: their names, their scripts, and which of them a text can be in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

from posnmt.config.writing import base_code

LATIN, CYRILLIC, ARABIC, INDIC, HAN = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",), ("CJK",)

LANGUAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "af": ("Afrikaans", LATIN), "am": ("Amharic", ("ETHIOPIC",)), "ar": ("Arabic", ARABIC),
    "az": ("Azerbaijani", LATIN), "be": ("Belarusian", CYRILLIC), "bg": ("Bulgarian", CYRILLIC),
    "bn": ("Bengali", ("BENGALI",)), "bo": ("Tibetan", ("TIBETAN",)), "bs": ("Bosnian", LATIN),
    "ca": ("Catalan", LATIN), "cs": ("Czech", LATIN), "cy": ("Welsh", LATIN), "da": ("Danish", LATIN),
    "de": ("German", LATIN), "el": ("Greek", ("GREEK",)), "en": ("English", LATIN), "eo": ("Esperanto", LATIN),
    "es": ("Spanish", LATIN), "et": ("Estonian", LATIN), "eu": ("Basque", LATIN), "fa": ("Persian", ARABIC),
    "fi": ("Finnish", LATIN), "fr": ("French", LATIN), "ga": ("Irish", LATIN), "gl": ("Galician", LATIN),
    "gu": ("Gujarati", ("GUJARATI",)), "he": ("Hebrew", ("HEBREW",)), "hi": ("Hindi", INDIC),
    "hr": ("Croatian", LATIN), "hu": ("Hungarian", LATIN), "hy": ("Armenian", ("ARMENIAN",)),
    "id": ("Indonesian", LATIN), "is": ("Icelandic", LATIN), "it": ("Italian", LATIN),
    "ja": ("Japanese", ("HIRAGANA", "KATAKANA", "CJK")), "ka": ("Georgian", ("GEORGIAN",)),
    "kk": ("Kazakh", CYRILLIC), "km": ("Khmer", ("KHMER",)), "kn": ("Kannada", ("KANNADA",)),
    "ko": ("Korean", ("HANGUL",)), "ky": ("Kyrgyz", CYRILLIC), "la": ("Latin", LATIN), "lo": ("Lao", ("LAO",)),
    "lt": ("Lithuanian", LATIN), "lv": ("Latvian", LATIN), "mk": ("Macedonian", CYRILLIC),
    "ml": ("Malayalam", ("MALAYALAM",)), "mn": ("Mongolian", CYRILLIC), "mr": ("Marathi", INDIC),
    "ms": ("Malay", LATIN), "mt": ("Maltese", LATIN), "my": ("Burmese", ("MYANMAR",)), "nb": ("Norwegian", LATIN),
    "ne": ("Nepali", INDIC), "nl": ("Dutch", LATIN), "nn": ("Norwegian Nynorsk", LATIN), "no": ("Norwegian", LATIN),
    "pa": ("Punjabi", ("GURMUKHI",)), "pl": ("Polish", LATIN), "ps": ("Pashto", ARABIC), "pt": ("Portuguese", LATIN),
    "ro": ("Romanian", LATIN), "ru": ("Russian", CYRILLIC), "si": ("Sinhala", ("SINHALA",)), "sk": ("Slovak", LATIN),
    "sl": ("Slovenian", LATIN), "sq": ("Albanian", LATIN), "sr": ("Serbian", ("CYRILLIC", "LATIN")),
    "sv": ("Swedish", LATIN), "sw": ("Swahili", LATIN), "ta": ("Tamil", ("TAMIL",)), "te": ("Telugu", ("TELUGU",)),
    "tg": ("Tajik", CYRILLIC), "th": ("Thai", ("THAI",)), "tl": ("Tagalog", LATIN), "tr": ("Turkish", LATIN),
    "uk": ("Ukrainian", CYRILLIC), "ur": ("Urdu", ARABIC), "uz": ("Uzbek", LATIN), "vi": ("Vietnamese", LATIN),
    "yi": ("Yiddish", ("HEBREW",)), "zh": ("Chinese", HAN),
}  # fmt: skip
"""Code → English name, and scripts by the first word of their characters' names."""


READ = 10_000
"""Characters at the beginning of a text by which its language is detected."""


class Undecided(Exception):
    """The script of a text does not tell its language."""


def language_name(code: str) -> str:
    """The English name of a language; its code where it is not in the list."""
    known = LANGUAGES.get(base_code(code))
    return known[0] if known else code


def match(asked: str, codes: Iterable[str]) -> str | None:
    """The code that is asked for, in any case; otherwise the first of the same language: `en` for `EN-US`."""
    listed, plain = list(codes), asked.replace("_", "-").lower()
    same = [code for code in listed if code.replace("_", "-").lower() == plain]
    return next(iter(same + [code for code in listed if base_code(code) == base_code(asked)]), None)


def detect(text: str, codes: Iterable[str]) -> tuple[str, float] | None:
    """The only one of some languages that is written in the script of a text, with the share of its letters.

    None: the text is in the script of none of them.

    Raises:
        Undecided: several have the script, the scripts of one are not known, or the text has no letters.
    """
    listed = list(dict.fromkeys(codes))
    scripts = Counter(unicodedata.name(each, "").split(" ")[0].split("-")[0] for each in text[:READ] if each.isalpha())
    if not scripts:
        raise Undecided("a text without letters can be in any language")
    if unknown := [code for code in listed if base_code(code) not in LANGUAGES]:
        raise Undecided(f"the script of {', '.join(unknown)} is not known here")
    shares = {code: sum(scripts[each] for each in LANGUAGES[base_code(code)][1]) / scripts.total() for code in listed}
    most = max(shares.values(), default=0.0)
    best = [code for code, share in shares.items() if share == most]
    if most == 0.0:
        return None
    if len(best) > 1:
        raise Undecided(f"{', '.join(best)} are written in the same script")
    return best[0], most
