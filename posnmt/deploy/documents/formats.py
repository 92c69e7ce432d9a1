"""The formats of documents, each found by its name or by a file's ending."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from posnmt.base.errors import UserError, quoted
from posnmt.config.writing import TWO_LETTERS, base_code

if TYPE_CHECKING:
    from posnmt.deploy.documents.raw import Document


class Format(NamedTuple):
    """A format of documents.

    Attributes:
        endings: endings of its files, in small letters.
        reader: `module:object`: takes the bytes of a file and its path, and returns a `Document`.
        whole: whether a segment stays untranslated if the engine refuses one of its sentences. So it is in translation
            memories, and in messages that programs show.
        bilingual: whether the reader also takes the codes of source and target, as a tuple.
    """

    endings: tuple[str, ...]
    reader: str
    whole: bool = False
    bilingual: bool = False


FORMATS = {
    "tmx": Format((".tmx",), "posnmt.deploy.documents.tmx:TmxDocument", whole=True, bilingual=True),
    "xliff": Format((".xlf", ".xliff"), "posnmt.deploy.documents.xliff:XliffDocument", whole=True, bilingual=True),
    "html": Format((".html", ".htm", ".xhtml", ".xht"), "posnmt.deploy.documents.markup:read_html"),
    "srt": Format((".srt",), "posnmt.deploy.documents.subtitles:read_srt"),
    "vtt": Format((".vtt",), "posnmt.deploy.documents.subtitles:read_vtt"),
    "markdown": Format(
        (".md", ".markdown", ".mkd", ".mkdn", ".mdown"), "posnmt.deploy.documents.markdown:MarkdownDocument"
    ),
    "po": Format((".po", ".pot"), "posnmt.deploy.documents.po:PoDocument", whole=True, bilingual=True),
    "json": Format((".json",), "posnmt.deploy.documents.json:JsonDocument", whole=True),
    "text": Format((), "posnmt.deploy.documents.plain:read_text"),
    "wrapped": Format((), "posnmt.deploy.documents.plain:read_wrapped"),
}
"""Name → format. `text` and `wrapped` have no endings: without one of them, plain text is read line by line."""

PLAIN = "text"
"""The format of a `.txt` that is sent."""

NAMED = (".txt", *(ending for form in FORMATS.values() for ending in form.endings))
"""The endings of documents that can be sent."""

PACKED = frozenset([".gz", ".xz"])
"""Endings of compressed files, which are read as lines only."""

BINARY = {
    "a Word document": ".doc .docx .docm .dotx",
    "a PDF": ".pdf",
    "an OpenDocument text": ".odt .ott",
    "a spreadsheet": ".xls .xlsx .xlsm .ods",
    "a presentation": ".ppt .pptx .odp",
    "an e-book": ".epub .mobi .azw3",
    "an RTF document": ".rtf",
    "an InDesign document": ".idml .indd",
    "a package of translations": ".xlz .sdlppx .mqxlz",
    "a Pages document": ".pages",
    "a compiled catalogue of messages": ".gmo",
}
"""Documents that are not read and do not consist of lines: description → endings."""

STRUCTURED = {
    "a CSV table": ".csv",
    "a table with tabs": ".tsv",
    "a YAML file": ".yaml .yml",
    "a TOML file": ".toml",
    "an INI file": ".ini .cfg",
    "a file of settings": ".conf .env",
    "a LaTeX document": ".tex .latex .ltx .bib",
    "a Texinfo document": ".texi .texinfo",
    "an XML document": (
        ".xml .dita .ditamap .dbk .docbook .fb2 .resx .resw .stringsdict .sdlxliff .mqxliff .mxliff .mqxlf .txlf .txml"
        " .tbx .ttml .dfxp .svg .plist .fodt .fods .fodp .opml .rss .atom .rdf .ncx .opf .xsl .xslt .xsd .ditaval"
    ),
    "a web page with a program in it": (
        ".shtml .php .phtml .jsp .jspx .asp .aspx .cshtml .vue .svelte .astro .erb .ejs .hbs .mustache .twig .liquid"
        " .jinja .jinja2 .j2 .njk .haml .pug"
    ),
    "a program": ".js .mjs .jsx .tsx .py .java .kt .swift .dart .css .scss .sql",
    "a saved web page or message": ".mht .mhtml",
    "an SGML document": ".sgm .sgml",
    "a notebook": ".ipynb",
    "a file of lines of JSON": ".jsonl .ndjson",
    "a JSON file of messages": ".arb .xcstrings",
    "JSON with comments": ".json5 .jsonc .hjson",
    "a file of messages": ".properties .strings .ftl",
    "a reStructuredText document": ".rst",
    "an AsciiDoc document": ".adoc .asciidoc",
    "a Wiki page": ".wiki .mediawiki .creole",
    "a Textile document": ".textile",
    "an Org document": ".org",
    "a file of subtitles": ".ass .ssa .sbv .sub .scc .sami .usf",
    "MDX": ".mdx",
    "Markdown with a program in it": ".rmd .qmd",
}
"""Documents that are not read, but consist of lines: description → endings."""

CODES = {
    ".ts": ("a file with markup", r"<"),
    ".smi": ("a file of subtitles", r"<"),
    ".lrc": ("a file of subtitles", r"\[(\w+:|\d)"),
    ".eml": ("a message", r"[\w-]+:\s"),
}
"""Endings that are a language code too → description of the document, and how one begins."""

TEXTS = frozenset(["", ".txt", ".text", ".src", ".tgt", ".trg", ".source", ".target", ".ref", ".hyp", ".tok", ".bpe"])
"""Endings of files that are always read as lines, besides language codes."""

STARTS = {
    "a file with markup": r"<(\?\w|!doctype|html\b)",
    "a file of JSON": r'\[?\s*\{\s*"[^"\n]*"\s*:|\[\s*"[^"\n]*"\s*[,\]]',
}
"""Description → how such a document begins. A file that begins so is not read as lines, whatever its ending is."""


def format_of(requested: str | None, path: Path | None) -> str | None:
    """The format of an input; None: lines.

    Args:
        requested: a format, or `lines`; None: by the file's ending.
        path: the file; None: standard input.

    Raises:
        UserError: the document is compressed, or its format is not read.
    """
    if requested == "lines":
        return None
    path = Path() if path is None else path
    is_packed = path.suffix.lower() in PACKED
    form = requested or _format_by_ending(path)
    if form and is_packed:
        raise UserError("a compressed document is not read", path, "unpack it, or add --document lines")
    if not form:
        _refuse_unread(path)
    return form


def refuse_output_format(requested: str | None, form: str | None, path: Path | None) -> None:
    """Check that an output's ending is not that of another format.

    Args:
        requested: the format, or `lines`, that the user named; then the ending may be that of another format.
        form: the format that is written; None: lines.
        path: the output; None: standard output.

    Raises:
        UserError: the ending is that of another format, or of a format that is never written.
    """
    if path is None:
        return
    written = form or "lines"
    if what := _description(path, BINARY):
        raise UserError(f"the output is {written}, not {what}", path, "choose a name with another ending")
    other = _format_by_ending(path)
    if requested is None and other not in (None, form):
        todo = "choose a name with another ending, or name the format of the input by --document"
        raise UserError(f"the output is {written}, not {other}", path, todo)


def _ending(path: Path) -> str:
    """The ending of a file's name, without `.gz` and `.xz`."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def _format_by_ending(path: Path) -> str | None:
    ending = _ending(path)
    return next((name for name, form in FORMATS.items() if ending in form.endings), None)


def _description(path: Path, kinds: dict[str, str]) -> str | None:
    """The description in `BINARY` or `STRUCTURED` of a file's ending."""
    ending = _ending(path)
    return next((what for what, endings in kinds.items() if ending in endings.split()), None)


def format_of_name(name: str) -> str:
    """The format of a document that is not a file here, such as one that was sent, by its name alone.

    Raises:
        UserError: no format has the ending, or the document is compressed.
    """
    path = Path(name)
    form = PLAIN if path.suffix.lower() == ".txt" else _format_by_ending(path)
    if form is None or path.suffix.lower() in PACKED:
        what = _description(path, BINARY | STRUCTURED) or f"a file with the ending {quoted(path.suffix)}"
        what = what if path.suffix else "a file whose name has no ending"
        what = "a compressed document" if path.suffix.lower() in PACKED else what
        raise UserError(f"{what} is not read", name, f"send one of {', '.join(NAMED)}")
    return form


def _refuse_unread(path: Path) -> None:
    """Check that a file without a known format may be read as lines.

    Raises:
        UserError: it is a document of a format that is not read.
    """
    start = _start(path)
    if what := _description(path, BINARY) or ("a file that is not text" if "\0" in start else None):
        raise UserError(f"{what} is not read", path, "save it as .html or .txt")
    if what := _description(path, STRUCTURED) or _begins_as(start, _ending(path)):
        todo = "add --document lines to translate each line as a sentence, or --document text as a paragraph"
        raise UserError(f"{what} is not read", path, todo)


def _start(path: Path) -> str:
    """The first characters of a file; empty for pipes and for files whose ending says that they consist of lines."""
    ending = _ending(path)
    is_text = ending in TEXTS or (base_code(ending[1:]) in TWO_LETTERS and ending not in CODES)
    if is_text or path.suffix.lower() in PACKED or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            data = file.read(1024)
    except OSError:
        return ""  # reading the file reports the error
    from posnmt.deploy.documents.raw import MARKS

    encoding = next((each for mark, each in MARKS.items() if data.startswith(mark)), "utf-8")
    return data.decode(encoding, "ignore").lstrip("\ufeff \t\r\n")


def _begins_as(start: str, ending: str) -> str | None:
    """The description of a file that begins as a document; None: it may be lines."""
    starts = dict([CODES[ending]]) if ending in CODES else STARTS
    return next((what for what, pattern in starts.items() if re.match(pattern, start, re.IGNORECASE)), None)


def read(form: str, data: bytes, path: Path, languages: tuple[str, str]) -> Document:
    """Read a document.

    Args:
        form: a name in `FORMATS`.
        data: the bytes of the file.
        path: the path of the file, for errors.
        languages: codes of source and target.

    Raises:
        UserError: the file does not have the format, or is not safe to read.
    """
    reader = resolve_name(FORMATS[form].reader)
    document: Document = reader(data, path, languages) if FORMATS[form].bilingual else reader(data, path)
    return document
