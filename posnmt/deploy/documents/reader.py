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
from posnmt.deploy.documents.formats import read
from posnmt.deploy.documents.tagged import Divided, Layout

MEMORY = 4 << 30
"""Most bytes of memory that the process may have, where the system can limit them."""


def sentences_of(
    form: str, contents: Sequence[bytes], name: str, languages: tuple[str, str], most: int
) -> dict[str, Any]:
    """The sentences of documents.

    Args:
        form: a name in `posnmt.deploy.documents.formats.FORMATS`.
        contents: the bytes of the documents.
        name: the name of the file, for messages.
        languages: codes of source and target.
        most: most segments; the sentences of larger documents are not sought.

    Returns:
        `texts`: each sentence with its line; `sample`: the texts of the segments; `segments`: their number.

    Raises:
        UserError: a document cannot be read.
    """
    documents = [read(form, each, Path(name), languages) for each in contents]
    segments = [each for document in documents for each in document.segments]
    sample = "\n".join("".join(each for each in segment.pieces if isinstance(each, str)) for segment in segments)
    if len(segments) > most:
        return {"texts": [], "sample": "", "segments": len(segments)}
    divisions = [Division(form, each, languages[0]) for each in documents]
    texts = [(sentence.text, line) for each in divisions for sentence, line in each.texts]
    return {"texts": texts, "sample": sample, "segments": len(segments)}


def written(
    form: str,
    contents: Sequence[bytes],
    name: str,
    languages: tuple[str, str],
    translations: Sequence[tuple[str, bool] | None],
) -> dict[str, Any]:
    """Documents with the translations of their sentences.

    Args:
        form, contents, name, languages: as in `sentences_of`.
        translations: of each sentence its translation, and whether it passes as it is; None: it is refused.

    Returns:
        `contents`: the bytes of the documents; `notes`: what became of their texts.
    """
    results = iter(translations)
    divisions = [Division(form, read(form, each, Path(name), languages), languages[0]) for each in contents]
    made, notes = [], []
    for division in divisions:
        found = {id(sentence): result for (sentence, _), result in zip(division.texts, results, strict=False)}
        placed = {key: SimpleNamespace(text=each[0], passed=each[1]) for key, each in found.items() if each}
        made.append(division.content(placed))
        notes += division.notes()
    return {"contents": made, "notes": notes}


def sentences_of_texts(
    contents: Sequence[bytes], name: str, languages: tuple[str, str], layout: dict[str, Any]
) -> dict[str, Any]:
    """The sentences of the texts of a request.

    Args:
        contents: the texts as UTF-8.
        name: what they are called in messages.
        languages: codes of source and target.
        layout: what `Layout.as_json` wrote.

    Returns:
        `texts`: the sentences.

    Raises:
        UserError: the tags of a text are broken.
    """
    return {"texts": [line for each in _divided(contents, languages, layout) for line in each.lines]}


def written_texts(
    contents: Sequence[bytes],
    name: str,
    languages: tuple[str, str],
    layout: dict[str, Any],
    translations: Sequence[tuple[str, bool]],
) -> dict[str, Any]:
    """Texts with the translations of their sentences.

    Args:
        contents, name, languages, layout: as in `sentences_of_texts`.
        translations: of each sentence its translation, and whether it passes as it is.

    Returns:
        `contents`: the texts as UTF-8.
    """
    results = (SimpleNamespace(text=text, passed=passed) for text, passed in translations)
    return {"contents": [each.filled(results) for each in _divided(contents, languages, layout)]}


def _divided(contents: Sequence[bytes], languages: tuple[str, str], layout: dict[str, Any]) -> list[Divided]:
    chosen = Layout.of_json(layout)
    return [Divided(each.decode(), number, chosen, languages[0]) for number, each in enumerate(contents)]


CALLS: dict[str, Callable[..., dict[str, Any]]] = {
    "sentences_of": sentences_of,
    "written": written,
    "sentences_of_texts": sentences_of_texts,
    "written_texts": written_texts,
}
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
