"""The end of a translation: notes for the user on how it was made, and warnings of doubtful lines."""

from __future__ import annotations

from collections.abc import Iterator

from posnmt.config.schema import Decode
from posnmt.data.corpus import Findings, TextFile
from posnmt.translate.engine import Engine
from posnmt.translate.output import Record
from posnmt.translate.repetition import REPEATS
from posnmt.translate.several import why_in_parts

WARNINGS = {
    "untagged": "{of} lines begin with no language tag of the training text; choose the target language with --to",
    "too_long": "{of} lines were too long for one piece and were translated in parts, cut at ends of sentences, clauses"
    " or words; see --split",
    "at_limit": "{of} lines reached the output limit of {decode.max_ratio:g} x source + {decode.max_extra} subwords;"
    " see --max-ratio and --max-extra",
    "omitted": "{of} translations leave out sentences of their lines; --format jsonl names them, and see --complete and"
    " --split",
    "fell_apart": "{of} lines were translated each alone, as the translation of them together reached the output limit;"
    " see --join",
    "missing_terms": "{of} translations lack a term of --terms: the vocabulary lacks its characters, or it was cut; see"
    " docs/terms.md",
    "unknown": "{of} lines contain characters that the vocabulary lacks{carried}; --format jsonl names them",
    "differing": "{of} translations lose, add or change placeholders, markup, addresses or paths of their lines; "
    "--format jsonl names them",
    "repetitive": f"{{of}} translations repeat a group of subwords {REPEATS} times in a row or more, as the source does"
    " not",
}
"""Name in `posnmt.translate.translations.REMARKS`, or `untagged` → sentence; `of` is how many of how many."""

CARRIED = "; words with them are carried over as they are where they stand alone"


def summary(record: Record, decode: Decode, engine: Engine, findings: Findings, file: TextFile) -> Iterator[str]:
    """The sentences, notes first.

    Args:
        record: the lines that something is to be said of.
        findings: how the lines of `file` were read.
    """
    notes = [*engine.notes]
    if empty := findings.count(file, "empty"):
        notes.append(f"{empty:,} empty lines are left empty")
    if passed := record.remarks.get("passed"):
        notes.append(
            f"{passed.count:,} lines without words that the model can read are passed on as they are (lines {passed})"
        )
    if decode.split == "as-trained" and (apart := record.remarks.get("in_sentences")):
        what = f"{apart.count:,} of {record.lines:,} lines {why_in_parts(engine.several)}"
        notes.append(f"{what}; see --split (lines {apart})")
    if mended := record.remarks.get("mended"):
        what = f"{mended.count:,} of {record.lines:,} lines were translated again a sentence at a time"
        notes.append(f"{what}, as a sentence was left out; see --complete (lines {mended})")
    if crlf := findings.count(file, "crlf"):
        notes.append(f"{crlf:,} lines end in CRLF; the carriage return is removed")
    yield from (f"note: {note}" for note in notes)
    if (foreign := record.remarks.get("foreign")) and 2 * foreign.count > record.lines:
        language = engine.text.source.words.language
        what = f"{foreign.count:,} of {record.lines:,} lines are in another script than {language}, the language"
        yield f"warning: {what} that the model translates from: is this the right text? (lines {foreign})"
    for name, sentence in WARNINGS.items():
        if lines := record.remarks.get(name):
            carried = "" if decode.protect == "off" else CARRIED
            what = sentence.format(of=f"{lines.count:,} of {record.lines:,}", decode=decode, carried=carried)
            yield f"warning: {what} (lines {lines})"
