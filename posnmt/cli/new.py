"""`posnmt new`: write the first files of a plug-in."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

import click

from posnmt.base.errors import UserError
from posnmt.base.output import changing
from posnmt.cli.group import COMMAND, Group

SCHEME = '''"""A bias for nearness with a trained width for each head: e_ij = q_i k_j - (j - i)^2 / (2 s_h^2)."""

import torch
from torch import Tensor, nn

from posnmt.position import LayerPosition, Options, Scheme, Span, Stack, option


class {name}Bias(LayerPosition):
    reads_keys = False  # the bias does not depend on the words

    def __init__(self, heads: int, width: float) -> None:
        super().__init__()
        self.width = nn.Parameter(torch.full((heads, 1), width))

    def by_offset(self, span: Span) -> Tensor:
        """The term [H,W] that is added to the logits at each distance j - i."""
        return -(span.diagonals / self.width).square() / 2


class {name}(Scheme):
    class Settings(Options):
        width: float = option(8.0, "initial value of s, in words", gt=0)

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.bias = {name}Bias(stack.heads, settings.width)

    def layer(self, index: int) -> LayerPosition:
        return self.bias
'''

TEST = '''"""Tests of {name}: python {file}, or pytest {file}."""

import torch
from {module} import {name}

from posnmt.position import Span, Stack, join
from posnmt.testing import check_scheme


def test_the_contract():
    check_scheme({name})


def test_the_equation():
    scheme = {name}(Stack(d_model=8, heads=2, layers=1, causal=False, max_length=9), {name}.Settings(width=3.0))
    unread = torch.zeros(1, 2, 4, 4)  # [1, heads, words, width of a head]: the bias reads no words
    bias = join([scheme], layers=1)[0].logits(unread, unread, Span(0, 4, unread.device))
    for i in range(4):
        for j in range(4):
            expected = torch.full((2,), -((j - i) ** 2) / (2 * 3.0**2))
            torch.testing.assert_close(bias[:, i, j].detach(), expected)


if __name__ == "__main__":
    test_the_contract()
    test_the_equation()
    print("{name} holds")
'''


@click.group(cls=Group, heading="Research", context_settings=COMMAND)
def new() -> None:
    """Write the first files of a plug-in: working code and its test.

    \b
    Example: posnmt new scheme nearness
    """


@new.command(context_settings=COMMAND)
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="folder; default: the current one")
def scheme(name: str, out: Path) -> None:
    """Write a working position scheme and its test.

    The files are NAME.py and test_NAME.py. No file is overwritten.

    \b
    Example: posnmt new scheme nearness --out schemes
    """
    module = name.replace("-", "_")
    class_name = "".join(word.capitalize() for word in module.split("_"))
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise UserError(f"{name!r} cannot be the name of a module", "NAME", "use small letters, digits, - and _")
    if re.search(rf"\b{class_name}\b", SCHEME):
        raise UserError(f"the file already uses the name {class_name}", "NAME", "choose another name")
    files = (f"{module}.py", f"test_{module}.py")
    with changing(out, new=True) as changes:
        drafts = [changes.path(file) for file in files]
        if find_spec(module) is not None:
            what = f"Python already has a module {module!r}, which the file would hide"
            raise UserError(what, "NAME", "choose another name")
        for file, draft, text in zip(files, drafts, (SCHEME, TEST), strict=True):
            text = text.replace("{name}", class_name).replace("{module}", module).replace("{file}", file)
            draft.write_text(text, encoding="utf-8")
    for file in files:
        click.echo(str(out / file))
    click.echo(f"test it: python {out / files[1]}", err=True)
    click.echo(
        f"use it, in the folder of {module}.py: --set 'model.encoder.position=[{{scheme: \"{module}:{class_name}\"}}]'"
        " and likewise model.decoder.position",
        err=True,
    )
