"""`posnmt systems`: the list of the named systems. It imports PyTorch only for systems of packages that need it."""

from __future__ import annotations

from collections.abc import Iterator

from posnmt.base.plugins import usable
from posnmt.base.progress import warn
from posnmt.config.systems import RECOMMENDED, SYSTEMS, named


def all_systems() -> dict[str, dict[str, str]]:
    """Name -> summary, source and origin of each system: recommended ones first, those of installed packages last.

    Warns about systems that cannot be used.
    """
    names = [*RECOMMENDED, *(name for name in SYSTEMS if name not in RECOMMENDED)]
    systems = {name: ("posnmt", SYSTEMS[name]) for name in names}
    systems |= {each.name: (each.shown, system) for each, system in usable("system", SYSTEMS, named, warn)}
    return {
        name: {"summary": system.summary, "source": system.source, "origin": origin}
        for name, (origin, system) in systems.items()
    }


def as_text(systems: dict[str, dict[str, str]]) -> str:
    """The list as text, in groups."""
    width = max(map(len, systems))

    def lines(names: list[str]) -> Iterator[str]:
        for name in names:
            about = systems[name]
            origin = "" if about["origin"] == "posnmt" else f"; {about['origin']}"
            yield f"  {name:{width}}  {about['summary']} ({about['source']}{origin})"

    others = [name for name in SYSTEMS if name not in RECOMMENDED]
    text = ["recommended (docs/choose.md says why):", *lines([*RECOMMENDED]), "", "others:", *lines(others)]
    foreign = [name for name in systems if name not in SYSTEMS]
    return "\n".join([*text, "", "from installed packages:", *lines(foreign)] if foreign else text)
