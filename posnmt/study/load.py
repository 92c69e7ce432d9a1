"""Load and check a recipe from a file or by the name of a built-in one; all faults are reported at once, with lines."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from posnmt.base import plugins
from posnmt.base.errors import UserError, combined, nearest, quoted, raise_all
from posnmt.config.yaml import Lines, faults, merge, override, place, read_yaml
from posnmt.study.faults import Faults
from posnmt.study.points import expanded, with_all_systems
from posnmt.study.recipe import Recipe
from posnmt.study.sweep import grid_of

LIKE, EXCEPT = "like", "except"
"""The keys that name a recipe whose settings this one changes, and the settings of it that are not taken over."""

GIVEN = "given"
"""The name of a sweep from the command line."""


def shipped() -> dict[str, Path]:
    """Name -> path of the recipes that come with the package."""
    folder = Path(str(resources.files("posnmt.study") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(
    name: str, overrides: tuple[str, ...] = (), check_configs: bool = True, sweeps: tuple[str, ...] = ()
) -> Recipe:
    """Load and check a recipe.

    Args:
        name: of a recipe that comes with posnmt, such as `neishi2019`, or with an installed package; or the path of a
            YAML file.
        overrides: `key.key=value`, which replace settings of the file.
        check_configs: whether to check the configuration of every training, too, which imports PyTorch.
        sweeps: `section.setting=value,value`, for each setting of a further sweep.

    Raises:
        UserError: the recipe has faults: all at once, with their lines.
    """
    path = recipe_file(name)
    tree, lines = _read(path)
    for setting in overrides:
        tree = override(tree, setting)
    if sweeps:
        tree = merge(tree, {"sweep": {GIVEN: {"grid": grid_of(sweeps)}}})
    recipe = _validated(tree, path, lines)
    raise_all(list(Faults(recipe, path, lines).reserved()))
    recipe = expanded(with_all_systems(recipe))
    found = Faults(recipe, path, lines)
    raise_all(list(found.names()))
    if check_configs:
        raise_all(list(found.configs()))  # needs names that are known
        raise_all(list(found.shifts()))  # needs configurations that are sound
    return recipe


def _read(path: Path, above: tuple[Path, ...] = ()) -> tuple[dict[str, Any], Lines]:
    """The settings in a file, merged over those of the recipe that it names with `like`, and the lines of its own keys.

    Args:
        path: the recipe's file.
        above: the recipes that lead to it by `like`.

    Raises:
        UserError: a file is missing, is no YAML mapping, or leads back to itself by `like`; or the recipe that it names
            has faults.
    """
    tree, lines = read_yaml(path, "recipe", "a recipe is a YAML mapping: recipe, title, pair, scales, systems ...")
    if LIKE not in tree:
        if EXCEPT in tree:
            what = f"{EXCEPT} names settings of another recipe, and {LIKE} names none"
            raise UserError(what, place((EXCEPT,), path, lines), f"add {LIKE}, or leave {EXCEPT} out")
        return tree, lines
    name, where = tree.pop(LIKE), place((LIKE,), path, lines)
    if not isinstance(name, str):
        raise UserError(f"{LIKE}: input should be a recipe's name, or a file, got {quoted(name)}", where)
    beside = path.parent / name
    base = beside if beside.is_file() else recipe_file(name, where)
    chain = (*above, path.resolve())
    if base.resolve() in chain:
        raise UserError(f"{LIKE}: {name} is like this recipe, so that neither has settings to begin with", where)
    below, its_lines = _read(base, chain)
    _validated(below, base, its_lines)
    left_out = tree.pop(EXCEPT, [])
    if not (isinstance(left_out, list) and all(isinstance(key, str) for key in left_out)):
        what = f"{EXCEPT}: input should be a list of settings of {name}, got {quoted(left_out)}"
        raise UserError(what, place((EXCEPT,), path, lines), "such as [systems, scales.paper]")
    for number, key in enumerate(left_out):
        below = _without(below, key, name, place((EXCEPT, str(number)), path, lines))
    merged = merge(below, tree)
    scales = tree.get("scales")
    for scale, setting in scales.items() if isinstance(scales, dict) else ():
        if isinstance(setting, dict) and isinstance(setting.get("corpora"), dict):
            # A corpus is one value: the lines that the other recipe takes of its own text are none of this one's.
            merged["scales"][scale]["corpora"].update(setting["corpora"])
    return merged, lines


def _without(tree: Any, key: str, name: str, where: str | None) -> Any:
    """The settings of a recipe without one of them.

    Args:
        tree: the settings, which stay as they are.
        key: of the setting, with dots.
        name: of the recipe.
        where: the place where the key is written.

    Raises:
        UserError: there is no such setting.
    """
    first, _, rest = key.partition(".")
    if not isinstance(tree, dict) or first not in tree:
        there = ", ".join(map(str, tree)) if isinstance(tree, dict) else "no settings in it"
        raise UserError(f"{EXCEPT}: {name} has no {first!r}", where, f"there are {there}")
    others = {each: value for each, value in tree.items() if each != first}
    return {**tree, first: _without(tree[first], rest, f"{name}, {first}", where)} if rest else others


def _validated(tree: dict[str, Any], path: Path, lines: Lines) -> Recipe:
    """The recipe of these settings.

    Raises:
        UserError: they have faults.
    """
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise combined(faults(error, Recipe, path, lines)) from None


def recipe_file(name: str, where: str | None = None) -> Path:
    """The file of a recipe.

    Args:
        name: of a recipe that comes with posnmt or with an installed package; or the path of a file.
        where: the place where the name is written; None: on the command line.

    Raises:
        UserError: there is none.
    """
    known = shipped()
    if (path := known.get(name) or Path(name)).exists():
        return path
    offered = plugins.names("recipe")
    if name in offered:
        return plugins.load("recipe", name, _as_recipe)
    near = nearest(name, [*known, *offered])
    hint = f"did you mean {near!r}? " if near else ""
    raise UserError(
        f"no recipe is called {name!r}",
        where,
        f"{hint}those that are installed: {', '.join([*known, *offered])}; or name a file",
    )


def _as_recipe(offered: Any) -> Path:
    """The file that a package offers as a recipe.

    Raises:
        TypeError: it is none.
    """
    path = Path(str(offered))
    if not path.is_file():
        raise TypeError(f"{path} is no file")
    return path
