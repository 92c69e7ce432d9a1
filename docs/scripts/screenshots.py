"""Take the screenshots of the pages in Chromium: docs/pictures/*.png.

    python docs/scripts/screenshots.py [WORKSPACE]    # default: build/workspace, which workspace.py builds

Each is 1,200 pixels wide, in light colours, and has at most 200 kB.
"""

from __future__ import annotations

import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).parents[1]
WORKSPACE = DOCS.parent / "build" / "workspace"
STUDY = DOCS / "results" / "schemes-small" / "report.html"
WIDTH = 1200
LARGEST = 200_000
"""Bytes of a picture."""

COLOURS = (256, 128, 64, 32)
"""Colours of a picture: the most with which it is small enough."""

HEIGHT = 1332
"""The part of a study's report that is shown, in pixels."""

CALLOUTS = {
    "h1 ~ p": "Verdict: which system leads, at which lengths",
    "#overall": "Scores, each with its interval",
    "#differences": "Difference from a baseline",
    "#by-length": "Scores by source length",
    "#examples": "Sentences that the systems translate differently",
}
"""What the numbers 1 to 5 of report.png stand at → what they say."""

SHORTEN = """() => {
  // Of each part that a number stands at the beginning is shown; the other parts are left out.
  const kept = { overall: 4, differences: 5, "by-length": 3, examples: 9 };
  let left = 0;
  const leave = (part) => { part.style.display = "none"; };
  for (const part of document.querySelector("main").children) {
    if (part.matches("h2")) left = kept[part.id] ?? 0;
    if (left-- <= 0) leave(part);
  }
  for (const part of document.querySelectorAll("nav, #by-length ~ .charts > :nth-child(n + 4)")) leave(part);
  for (const part of document.querySelectorAll("article.example:nth-child(n + 3), #example-status ~ nav")) leave(part);
  for (const part of document.querySelectorAll("#browser details")) part.open = false;
}"""
NUMBER = """([selector, number, words]) => {
  const at = document.querySelector(selector).getBoundingClientRect();
  const box = document.createElement("div");
  box.innerHTML = "<b></b><span></span>";
  box.style.cssText = `position: absolute; top: ${at.top + scrollY - 4}px; right: 16px; display: flex; gap: 8px;
    align-items: center; width: 190px; font: 600 14px/1.25 sans-serif; color: #7a1f5c; z-index: 9`;
  box.firstChild.textContent = number;
  box.firstChild.style.cssText = `flex: none; width: 28px; height: 28px; border-radius: 50%; background: #7a1f5c;
    color: white; font: 700 16px/28px sans-serif; text-align: center`;
  box.lastChild.textContent = words;
  document.body.append(box);
}"""
CONSOLE = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 18px 22px; width: 1156px; background: #fff; color: #1c1c22 }}
pre {{ margin: 0; font: 15px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap }}
</style><pre><b>$ {command}</b>\n{output}</pre>"""


def main(workspace: Path) -> None:
    """Take every screenshot."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no browser: apt-get install chromium, or name one with CHROMIUM")
    if not workspace.exists():
        from workspace import main as build

        build(workspace)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as running:
        folder = Path(place) / "work"
        shutil.copytree(workspace, folder)
        browser = running.chromium.launch(executable_path=chromium)
        for name, picture in PICTURES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light", bypass_csp=True)
            page.set_default_timeout(120_000)
            data = small(picture(page, folder))
            (DOCS / "pictures" / f"{name}.png").write_bytes(data)
            print(f"docs/pictures/{name}.png: {len(data) / 1000:.0f} kB")
            page.close()
        browser.close()


def report(page: Any, folder: Path) -> bytes:
    """The report of docs/tutorial_length.md, shortened, with numbers at its five main parts."""
    posnmt(
        folder, "analyse", "--run", "runs/mine", "--source", "test.en", "--reference", "test.de",
        "--output", "transformer=other.de", "--output", "relative=mine.de", "--bin-width", "10", "--out", "analysis",
    )  # fmt: skip
    page.goto((folder / "analysis" / "report.html").as_uri())
    page.wait_for_selector(".panel svg")
    page.locator("#browser").scroll_into_view_if_needed()
    page.locator("article.example").first.wait_for()
    page.evaluate(SHORTEN)
    page.evaluate("scrollTo(0, 0)")
    for number, (selector, words) in enumerate(CALLOUTS.items(), 1):
        page.evaluate(NUMBER, [selector, number, words])
    return page.screenshot(full_page=True)


def study(page: Any, folder: Path) -> bytes:
    """The beginning of a published study's report."""
    page.goto(STUDY.as_uri())
    return page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})


def server(page: Any, folder: Path) -> bytes:
    """The page of `posnmt serve` with two models."""
    lines = (folder / "test.en").read_text(encoding="utf-8").splitlines()
    shown = [min(lines, key=lambda line, words=words: abs(len(line.split()) - words)) for words in (6, 11, 20)]
    with serving(folder, "mine=runs/mine", "other=runs/other") as address:
        page.goto(address)
        page.locator("#models input").first.wait_for()
        page.locator("#source").fill("\n".join(shown))
        page.keyboard.press("Control+Enter")
        page.get_by_text(f"{2 * len(shown)} of {2 * len(shown)} translations").wait_for()
        return page.screenshot(full_page=True)


def train(page: Any, folder: Path) -> bytes:
    """What `posnmt train` printed when the workspace was built."""
    log = (folder / "logs" / "train-mine.log").read_text(encoding="utf-8")
    log = re.sub(r"/\S+(?=/stores/)", "~/work", log)
    output = re.sub(r"((?:^training .*\n){2})(?:^training .*\n)+(?=^training )", "\\1…\n", log, flags=re.MULTILINE)
    page.set_content(CONSOLE.format(command="posnmt train mine.yaml --out runs/mine", output=html.escape(output)))
    return page.screenshot(full_page=True)


PICTURES: dict[str, Callable[[Any, Path], bytes]] = {
    "report": report,
    "study": study,
    "server": server,
    "train": train,
}


def posnmt(folder: Path, *arguments: str) -> None:
    """Run a command of posnmt in a folder."""
    subprocess.run([sys.executable, "-m", "posnmt", *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL)


@contextmanager
def serving(folder: Path, *models: str) -> Iterator[str]:
    """Start `posnmt serve` and return its address; stop it at the end."""
    command = [sys.executable, "-m", "posnmt", "serve", "--port", "0", *models]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield re.sub(r"\s", "", process.stdout.readline())
        finally:
            process.terminate()


def small(picture: bytes) -> bytes:
    """Return a picture with a palette of as many colours as `LARGEST` bytes allow."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            return out.getvalue()
    raise ValueError(f"a picture of {image.size} has {out.tell():,} bytes with {colours} colours: show less")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else WORKSPACE)
