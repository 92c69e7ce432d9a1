"""Names and scripts of languages, and the detection of a text's language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from posnmt.config.writing import base_code

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

LATIN, CYRILLIC, ARABIC, INDIC, HAN = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",), ("CJK",)

LANGUAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "af": ("Afrikaans", LATIN), "am": ("Amharic", ("ETHIOPIC",)), "ar": ("Arabic", ARABIC),
    "as": ("Assamese", ("BENGALI",)), "az": ("Azerbaijani", LATIN), "be": ("Belarusian", CYRILLIC),
    "bg": ("Bulgarian", CYRILLIC),
    "bn": ("Bengali", ("BENGALI",)), "bo": ("Tibetan", ("TIBETAN",)), "bs": ("Bosnian", LATIN),
    "ca": ("Catalan", LATIN), "cs": ("Czech", LATIN), "cy": ("Welsh", LATIN), "da": ("Danish", LATIN),
    "de": ("German", LATIN), "dz": ("Dzongkha", ("TIBETAN",)), "el": ("Greek", ("GREEK",)),
    "en": ("English", LATIN), "eo": ("Esperanto", LATIN),
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
"""Code → English name, and scripts, each by the first word of Unicode's names of its characters."""


OTHER_SCRIPTS = {
    "ba": CYRILLIC, "gom": INDIC, "grc": ("GREEK",), "hbo": ("HEBREW",), "or": ("ORIYA",), "sa": INDIC, "sdh": ARABIC,
    "tt": CYRILLIC, "ug": ARABIC, "uzs": ARABIC,
}  # fmt: skip
"""Scripts of further languages that py3langid knows. Its other languages are in Latin script."""

ONE_LANGUAGE = {"ary": "ar", "arz": "ar", "nb": "no", "wuu": "zh", "yue": "zh"}
"""Code of py3langid or of a model -> py3langid's code for the same written language."""

NO_LANGUAGE = "zxx"
"""py3langid's code for text that is in no language, such as numbers and addresses."""

READ = 10_000
"""Number of characters, from the beginning of a text, by which its language is detected."""

CLEAR = 0.9
"""A text is clearly in a language from this probability on; docs/results/trials.md says how often that is wrong."""

ALIKE = 0.1
"""A language is possible if the share of letters in its script is less than that of the best by at most this."""


SCRIPTS = {"CANADIAN": "Canadian Aboriginal", "CJK": "Han", "EGYPTIAN": "hieroglyphic"}
"""First word of characters' names → name of their script, if it is another."""


class Undecided(Exception):
    """The language of a text cannot be determined. The message states why and what to do."""


def language_name(code: str) -> str:
    """The English name of a language; its code if the name is not known."""
    known = LANGUAGES.get(base_code(code))
    return known[0] if known else code


def match(requested: str, codes: Iterable[str]) -> str | None:
    """The code that equals the requested one, ignoring case; else the first of the same language: `en` for `EN-US`."""
    listed, plain = list(codes), requested.replace("_", "-").lower()
    same = [code for code in listed if code.replace("_", "-").lower() == plain]
    return next(iter(same + [code for code in listed if base_code(code) == base_code(requested)]), None)


def scripts_of(text: str) -> Counter[str]:
    """Script → number of letters; scripts are called by the first word of the letters' Unicode names."""
    return Counter(unicodedata.name(each, "").split(" ")[0].split("-")[0] for each in text if each.isalpha())


def detect(text: str) -> dict[str, float]:
    """The possible languages of a text with their probabilities, most probable first.

    py3langid decides among the languages that are written in the text's scripts. The probabilities add up to 1, or to
    less if the text may be in no language. The result is empty for a text without letters, and for one whose letters
    are mostly in a script that no known language has.
    """
    text = _plain(text)
    scripts = scripts_of(text)
    if not scripts:
        return {}
    of_language = {**OTHER_SCRIPTS, **{code: written for code, (_, written) in LANGUAGES.items()}}
    shares = {  # Japanese mixes its scripts; Serbian uses one or the other
        code: (sum if code == "ja" else max)(scripts[script] for script in written)
        for code, written in of_language.items()
    }
    least = max(1.0, max(*shares.values(), *scripts.values()) - ALIKE * scripts.total())
    probabilities: Counter[str] = Counter()
    for label, probability in identifier().rank(text):
        code = ONE_LANGUAGE.get(label, label)
        if code == NO_LANGUAGE or shares.get(code, scripts["LATIN"]) >= least:
            probabilities[code] += probability
    total = sum(probabilities.values())
    return {
        code: probability / total for code, probability in probabilities.most_common() if code != NO_LANGUAGE and total
    }


def detect_among(text: str, codes: Iterable[str]) -> tuple[str, float]:
    """The most probable language of a text among some, with its probability among all languages.

    Raises:
        Undecided: the text is clearly in another language or script; or it has no letters, or a language that the
            detector does not know, and there are several to choose from.
    """
    known = {code: ONE_LANGUAGE.get(base_code(code), base_code(code)) for code in codes}
    detected = detect(text)
    best = max(known, key=lambda code: detected.get(known[code], 0.0))
    probability = detected.get(known[best], 0.0)
    if unknown := [code for code in known if known[code] not in identifier().labels]:
        if len(known) == 1:
            return unknown[0], 0.0
        if probability < CLEAR:
            raise _undetected(f"the detector does not know {', '.join(unknown)}")
    elif scripts := scripts_of(_plain(text)):
        other = next(iter(detected), "")
        of_other_script = not {*known.values()} & {*detected}
        clear = detected.get(other, 0.0) >= CLEAR and other != known[best]
        if (clear or of_other_script) and (other, known[best]) != ("zh", "ja"):  # Japanese may have no kana
            raise _in_another(other if clear else "", scripts, of_other_script, list(known))
    elif len(known) > 1:
        raise _undetected("a text without letters can be in any language")
    return best, probability


def _plain(text: str) -> str:
    """The beginning of a text for detection, with letters in their usual forms, such as narrow for full-width ones."""
    return unicodedata.normalize("NFKC", text[:READ])


def _undetected(reason: str) -> Undecided:
    return Undecided(f"the source language cannot be detected: {reason}; name it")


def _in_another(other: str, scripts: Counter[str], of_other_script: bool, codes: list[str]) -> Undecided:
    """An error that names the text's language if it is clear, and else its script.

    Args:
        other: the code of the text's language; empty if it is not clear.
        scripts: the text's scripts.
        of_other_script: whether none of the languages to choose from is written in these scripts.
        codes: the languages to choose from.
    """
    listed = " or ".join(codes)
    if other in LANGUAGES:
        what = f"the text is in {language_name(other)} ({other}), not in {listed}"
    elif of_other_script:
        [(script, _)] = scripts.most_common(1)
        what = f"the text is in {SCRIPTS.get(script, script.capitalize())} script, which is not that of {listed}"
    else:
        what = f"the text is in a language with the code {other}, not in {listed}"
    return Undecided(f"{what}; name the source language to translate it anyway")


@cache
def identifier() -> LanguageIdentifier:
    """py3langid with its own model. Loading takes a third of a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
