"""Translation memories (TMX 1.4) as two files of aligned lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posnmt.corpora.archive import unpacked
from posnmt.corpora.download import Say
from posnmt.corpora.text import write_rows
from posnmt.data.tmx import Memory, refuse_entities, units


def write_tmx(file: Path, languages: Sequence[str], out: Sequence[Path], say: Say) -> int:
    """Write the translation units of a TMX file that have both languages; return the number of lines.

    Units that lack one of the languages are skipped, counted and reported. See `Memory` for what is written of a unit.

    Args:
        file: the memory, which may be compressed.
        languages: two codes.
        out: a file to write for each language.
        say: called with lines about skipped units and about languages with several regions.

    Raises:
        UserError: the file is not well-formed or declares entities, no unit has both languages, or a unit has texts of
            several regions for one of them.
    """
    memory = Memory(file, languages)
    with unpacked(file) as stream:
        refuse_entities(stream, file)
    with unpacked(file) as stream:
        lines = write_rows(([text.encode() for text in texts] for texts in memory.texts(units(stream, file))), out)
    memory.refuse(lines)
    memory.report(lines, say)
    return lines
