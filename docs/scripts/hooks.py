"""What MkDocs does beyond its plugins: files outside docs/ that pages link to, and a check of what pages load.

On GitHub a page of docs/ links to `../CHANGELOG.md` or `../benchmarks/notes/long.md`. In the site these are pages under
`project/`: every file of the repository that a page links to is added, and links are rewritten.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)[^>]*\ssrc=["']?(?:https?:)?//"""
    r"""|<link[^>]*rel=["']?(?:stylesheet|preload|preconnect|icon)[^>]*href=["']?(?:https?:)?//"""
    r"""|(?:@import|url\()\s*["']?(?:https?:)?//"""
)


def in_site(path: str) -> str:
    """The place in the site of a file of the repository: docs/x.md is x.md, everything else is under project/."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def in_repository(place: str) -> str:
    """The file of the repository that has a place in the site."""
    return place.removeprefix("project/") if place.startswith("project/") else f"docs/{place}"


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Apply a function to what is not in a fenced block."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def link_targets(path: str) -> set[str]:
    """The files of the repository that a page links to, as they are written; they need not exist."""
    found: set[str] = set()

    def collect(text: str) -> str:
        for link in LINK.findall(text):
            target = link.partition("#")[0]
            if target and "://" not in target and not target.startswith("mailto:"):
                found.add(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        return text

    outside_code((ROOT / path).read_text(encoding="utf-8"), collect)
    return found


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/ that pages link to, and those that they link to in turn."""
    known = {in_repository(file.src_uri) for file in files}
    waiting = [path for path in known if path.endswith(".md")]
    waiting += [in_repository(place) for place in _places(config.nav) if place.startswith("project/")]
    while waiting:
        path = waiting.pop()
        if path not in known:
            kept = InclusionLevel.NOT_IN_NAV  # or in it: both are allowed
            files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path), inclusion=kept))
            known.add(path)
        if path.endswith(".md"):
            waiting += [each for each in link_targets(path) if each not in known and (ROOT / each).is_file()]
    return files


def _places(nav: Any) -> list[str]:
    """The pages that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav or []
    return [place for entry in entries for place in _places(entry)]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links between files of the repository into links between pages of the site."""
    here = in_repository(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        target, sign, anchor = match[1].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        place = posixpath.relpath(in_site(path), posixpath.dirname(page.file.src_uri) or ".")
        return f"]({place}{sign}{anchor})"

    return with_docstrings(outside_code(markdown, lambda text: LINK.sub(rewritten, text)))


def with_docstrings(markdown: str) -> str:
    """The Python page with the docstring of each name in place of the rows that name them."""
    part = re.search(r"<!-- begin python -->(.*)<!-- end python -->", markdown, re.DOTALL)
    if part is None:
        return markdown
    tables = re.sub(r"^\| name .*\n\| --- .*\n", "", part[1], flags=re.MULTILINE)
    blocks = re.sub(
        r"^\| `([\w.]+)` \| `([\w.]+)` \|.*$",
        r"::: \2\n    options:\n      heading: \1\n      toc_label: \1\n",
        tables,
        flags=re.MULTILINE,
    )
    return markdown.replace(part[0], blocks)


def on_post_build(config: Any) -> None:
    """Fail if a page or a style sheet loads anything from the network when it is viewed."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css") and (match := LOADED.search(path.read_text(encoding="utf-8"))):
            raise PluginError(f"{path} loads something from the network: {match[0]}")
