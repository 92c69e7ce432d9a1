"""Virtual environments of other toolkits, made from the constraints files beside this one."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

INSTALL = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-r")


def prepare_environment(folder: Path, constraints: str) -> Path:
    """The interpreter of an environment, which is made, or finished, when it is not complete.

    Packages are installed as they are listed and without what they ask for: several ask for an older torch than the one
    that all are measured with. What is built from source is built with the packages that stand in the file before it.

    Args:
        folder: the virtual environment.
        constraints: name of a file beside this one, with the exact packages. A line `# then` ends the part that is
            installed before the rest.

    Raises:
        subprocess.CalledProcessError: pip failed; its message is on standard error.
    """
    interpreter = folder.absolute() / "bin" / "python"
    text = Path(__file__).with_name(constraints).read_text(encoding="utf-8")
    complete = folder / f".{constraints}"
    if not complete.exists() or complete.read_text(encoding="utf-8") != text:
        if not interpreter.exists():
            venv.create(folder, with_pip=True)
        for number, part in enumerate(text.split("# then\n")):
            packages = folder / f"packages-{number}.txt"
            packages.write_text(part, encoding="utf-8", newline="\n")
            subprocess.run([interpreter, *INSTALL, packages], check=True)
        complete.write_text(text, encoding="utf-8", newline="\n")
    return interpreter
