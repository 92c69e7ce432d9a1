"""Look every pinned package up in PyPI's list of advisories, by pip-audit, and say which could not be looked up.

    python tests/audit/audit.py PROGRAM CONSTRAINTS

PROGRAM is pip-audit. Status 0: all were looked up and none has an advisory; 1: some have; 3: some could not be looked
up, as without the network, where pip-audit alone reports success.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

OPTIONS = ("--progress-spinner", "off", "--disable-pip", "--no-deps", "--format", "json", "--requirement")


def main(program: str, constraints: str) -> int:
    done = subprocess.run([program, *OPTIONS, constraints], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr, file=sys.stderr)
        print("NOT AUDITED: pip-audit gave no result; it needs the network", file=sys.stderr)
        return 3
    for line in (lines := list(report(packages))):
        print(line)
    unknown = [package["name"] for package in packages if "vulns" not in package]
    if unknown or not packages:
        print(
            f"NOT AUDITED: {len(unknown)} of {len(packages)} packages could not be looked up"
            f" ({', '.join(unknown[:5])}, …); this needs PyPI itself, not a mirror without its advisories",
            file=sys.stderr,
        )
        return 1 if lines else 3
    print(f"{len(packages)} packages looked up, {len(lines)} advisories")
    return 1 if lines else 0


def report(packages: list[dict[str, Any]]) -> list[str]:
    """A line for each advisory."""
    return [
        f"{package['name']} {package['version']}: {each['id']}, fixed in {each['fix_versions'] or 'no version'}"
        for package in packages
        for each in package.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
