"""The extras of posnmt: packages that some commands need and translation does not."""

from __future__ import annotations

from importlib.util import find_spec

from posnmt.base.errors import UserError

EXTRAS = {
    "train": {
        "lightning-fabric": "lightning_fabric",
        "pyarrow": "pyarrow",
        "sacrebleu": "sacrebleu",
        "tensorboardX": "tensorboardX",
    },
    "analyse": {"jinja2": "jinja2", "matplotlib": "matplotlib", "sacrebleu": "sacrebleu"},
    "wandb": {"wandb": "wandb"},
    "serve": {
        "fastapi": "fastapi",
        "fastapi-offline": "fastapi_offline",
        "jinja2": "jinja2",
        "lxml": "lxml",
        "markdown-it-py": "markdown_it",
        "prometheus-client": "prometheus_client",
        "py3langid": "py3langid",
        "python-multipart": "python_multipart",
        "uvicorn": "uvicorn",
    },
    "documents": {"lxml": "lxml", "markdown-it-py": "markdown_it"},
}
"""Extra -> package, as in pyproject.toml -> its module."""


def requires(*extras: str) -> None:
    """Check that extras are installed, so that long work does not fail later for lack of a package.

    Raises:
        UserError: packages are missing; the message has the command that installs them.
    """
    needed = {package: module for extra in extras for package, module in EXTRAS[extra].items()}
    missing = [package for package, module in needed.items() if find_spec(module) is None]
    if missing:
        extra = extras[0] if len(extras) == 1 else "all"
        raise UserError(f"not installed: {', '.join(missing)}", None, f'pip install "posnmt[{extra}]"')
