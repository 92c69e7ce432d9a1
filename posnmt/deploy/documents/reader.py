"""A process that reads and writes documents and texts for a server, so that one that takes too long can be given up.

`python -m posnmt.deploy.documents.reader` answers each line of JSON on standard input by one on standard output. It
keeps nothing: a document is read once for its sentences, and again to be written with their translations.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from posnmt.base.errors import UserError
from posnmt.deploy.documents.division import Division
from posnmt.deploy.documents.formats import FORMATS, read
from posnmt.deploy.documents.raw import Document
from posnmt.deploy.documents.tagged import Layout

MEMORY = 4 << 30
"""Most bytes of memory that the process may have, where the system can limit them."""


def sentences_of(
    contents: Sequence[bytes],
    name: str,
    languages: tuple[str, str],
    form: str | None = None,
    layout: Layout | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """The sentences of documents, or of the texts of a request.

    Args:
        contents: the bytes of the documents, or the texts as UTF-8.
        name: the name of the file, for messages.
        languages: codes of source and target.
        form: of documents, a name in `FORMATS`.
        layout: of texts, how they are divided.
        most: most segments; the sentences of larger documents are not sought. None: no limit.

    Returns:
        `texts`: each sentence with its line; `sample`: the texts of the segments; `segments`: their number.

    Raises:
        UserError: a document cannot be read, or the tags of a text are broken.
    """
    documents = _documents(contents, name, languages, form, layout)
    segments = [each for document in documents for each in document.segments]
    if most is not None and len(segments) > most:
        return {"texts": [], "sample": "", "segments": len(segments)}
    sample = "\n".join("".join(each for each in segment.pieces if isinstance(each, str)) for segment in segments)
    divisions = [_division(each, languages[0], form, layout) for each in documents]
    texts = [(sentence.text, line) for each in divisions for sentence, line in each.texts]
    return {"texts": texts, "sample": sample, "segments": len(segments)}


def written(
    contents: Sequence[bytes],
    name: str,
    languages: tuple[str, str],
    translations: Sequence[tuple[str, bool] | None],
    form: str | None = None,
    layout: Layout | None = None,
) -> dict[str, Any]:
    """Documents or texts with the translations of their sentences.

    Args:
        contents, name, languages, form, layout: as in `sentences_of`.
        translations: of each sentence its translation, and whether it passes as it is; None: it is refused.

    Returns:
        `contents`: the bytes of the documents; `notes`: what became of their texts.
    """
    results = iter(translations)
    made, notes = [], []
    for document in _documents(contents, name, languages, form, layout):
        division = _division(document, languages[0], form, layout)
        found = {id(sentence): result for (sentence, _), result in zip(division.texts, results, strict=False)}
        placed = {key: SimpleNamespace(text=each[0], passed=each[1]) for key, each in found.items() if each}
        made.append(division.content(placed))
        notes += division.notes()
    return {"contents": made, "notes": notes}


def _documents(
    contents: Sequence[bytes], name: str, languages: tuple[str, str], form: str | None, layout: Layout | None
) -> list[Document]:
    if layout is not None:
        return [layout.read(each.decode(), number) for number, each in enumerate(contents)]
    assert form is not None
    return [read(form, each, Path(name), languages) for each in contents]


def _division(document: Document, language: str, form: str | None, layout: Layout | None) -> Division:
    if layout is not None:
        return Division(document, language, as_one=layout.as_one)
    assert form is not None
    return Division(document, language, FORMATS[form].whole)


CALLS: dict[str, Callable[..., dict[str, Any]]] = {"sentences_of": sentences_of, "written": written}
"""What the process can be asked to do."""


def main() -> None:
    """Answer requests until standard input ends. Signals that end the server do not end its work."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):  # Windows, or a limit that cannot be set
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        asked = json.loads(line)
        call = CALLS[asked.pop("call")]
        asked["contents"] = [base64.b64decode(each) for each in asked["contents"]]
        asked["languages"] = tuple(asked["languages"])
        if "layout" in asked:
            asked["layout"] = Layout.of_json(asked["layout"])
        try:
            answer = call(**asked)
        except UserError as fault:
            answer = {"fault": [fault.what, fault.where, fault.todo]}
        except MemoryError:
            answer = {"fault": ["the document needs too much memory", asked["name"], "send a smaller one"]}
        if "contents" in answer:
            answer["contents"] = [base64.b64encode(each).decode() for each in answer["contents"]]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
