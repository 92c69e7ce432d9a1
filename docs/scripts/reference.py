"""Fill the generated parts of the pages: settings, commands, schemes and more as the code has them, tables of results.

    python docs/scripts/reference.py            # fill them
    python docs/scripts/reference.py --check    # exit with 1 if a page is out of date

A generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; what is around it is written by hand. In
a module, `# begin NAME` and `# end NAME` are around it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

results = importlib.import_module(f"{__package__}.results" if __package__ else "results")  # a script has no package

DOCS = Path(__file__).parents[1]
OPTIONS = DOCS.parent / "posnmt" / "api" / "options.py"
ANEW = DOCS / "results" / "verdicts_anew.md"
"""The page whose tables `benchmarks/verdicts_anew.py` writes, from texts that are not in the repository."""
PART = re.compile(r"((?:<!--|#) begin ([\w ]+?)(?: -->)?\n).*?((?:<!--|#) end \2)", re.DOTALL)
Schema = dict[str, Any]
SENTENCE_END = re.compile(r"(?<=\.)(?<! [A-Z]\.)(?<!et al\.)(?<!eq\.) ")
"""The space after a sentence. A full stop after an initial or an abbreviation ends none."""
VALUES = {"Corpus": "corpus", "ListedCorpus": "corpora", "Tokenisers": "one for each side"}
"""Sections that are a value of a setting, and what they are called there."""


def main(check: bool) -> int:
    """Fill every page, or name those that are out of date."""
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            stale.append(page)
            if not check:
                page.write_text(new, encoding="utf-8")
    for page in stale:
        print(f"{page}: {'out of date: run python docs/scripts/reference.py' if check else 'filled'}")
    return int(check and bool(stale))


def pages() -> list[Path]:
    """The module with a generated part, which the others need, and the pages with one."""
    written = [each for each in sorted(DOCS.glob("*.md")) + sorted(DOCS.glob("results/*.md")) if each != ANEW]
    return [OPTIONS, *(page for page in written if PART.search(page.read_text(encoding="utf-8")))]


def filled(text: str) -> str:
    """A page with its generated parts as they should be; in a module two lines are blank around them."""

    def part(match: re.Match[str]) -> str:
        blank = "\n\n" if match[1].startswith("#") else "\n"
        return f"{match[1]}{blank}{PARTS[match[2]]().strip()}\n{blank}{match[3]}"

    return PART.sub(part, text)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; a `|` in a cell is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def text(value: str) -> str:
    """Plain text as Markdown: `<` begins no tag, and `[]` is no link."""
    parts = re.split(r"(`[^`]*`)", value)
    marks = str.maketrans({"<": "&lt;", "[": "\\[", "]": "\\]", "*": "\\*", "_": "\\_", "~": "\\~"})
    return "".join(part if part.startswith("`") else part.translate(marks) for part in parts)


# settings


def settings() -> str:
    """A table for each section of a configuration."""
    from posnmt.run.resolve import json_schema

    schema = json_schema()
    inner, parts = schema["$defs"], []
    for name, reference in schema["properties"].items():
        section = inner.get(_name(reference))
        if section is None:
            continue
        parts.append(f"## {name}\n\n{section['description']}\n\n{_settings_table(section, inner, '')}")
    corpus = inner["Corpus"]
    parts.insert(1, f"### A corpus\n\n{corpus['description']}\n\n{_settings_table(corpus, inner, '')}")
    listed = inner["ListedCorpus"]
    own = {name: each for name, each in listed["properties"].items() if name not in corpus["properties"]}
    rows = _settings_table({"properties": own}, inner, "")
    parts.insert(2, f"### A corpus of a list\n\n{listed['description']}\n\n{rows}")
    return "\n\n".join(parts)


def _settings_table(section: Schema, inner: Schema, prefix: str) -> str:
    rows = list(_rows(section, inner, prefix))
    return table(("key", "value", "default", "meaning"), rows)


def _rows(section: Schema, inner: Schema, prefix: str) -> Iterator[tuple[str, ...]]:
    for name, field in section["properties"].items():
        named = {_name(each) for each in [field, *field.get("anyOf", [])]}.intersection(inner) - VALUES.keys()
        if not named or "anyOf" in field:  # a section that may be left out is a setting too
            default = "required" if name in section.get("required", []) else _value(field.get("default"))
            about = text(field.get("description", ""))
            yield f"`{prefix}{name}`", _kind(field), default, about
        for nested in named:
            yield from _rows(inner[nested], inner, f"{prefix}{name}.")


def _name(field: Schema) -> str:
    """The section that a field refers to, or nothing."""
    for each in [field, *field.get("allOf", [])]:
        if "$ref" in each:
            return each["$ref"].rsplit("/", 1)[1]
    return ""


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | tuple | dict):
        return f"`{str(list(value)) if not isinstance(value, dict) else value}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _kind(field: Schema) -> str:
    """The values that a setting takes."""
    if options := field.get("anyOf"):
        return " or ".join(_kind(option) for option in options if option.get("type") != "null")
    if named := _name(field):
        return VALUES.get(named, "the settings below")
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    match field.get("type"):
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number" as number:
            return ("whole number" if number == "integer" else "number") + _limits(field)
        case "array" if "prefixItems" in field:
            return "list of " + str(len(field["prefixItems"])) + " numbers"
        case "array":
            items = field["items"]
            return f"list of {VALUES.get(_name(items), 'schemes')}" if _name(items) else f"list of {_kind(items)}"
        case "object":
            return "mapping"
        case _:
            return "text"


def _limits(field: Schema) -> str:
    low, above = field.get("minimum"), field.get("exclusiveMinimum")
    high, below = field.get("maximum"), field.get("exclusiveMaximum")
    lower = "" if low is None else f" from {low:g}"
    lower = lower if above is None else f" above {above:g}"
    upper = "" if high is None else f" to {high:g}"
    return lower + (upper if below is None else f", below {below:g}")


# commands


def commands() -> str:
    """The commands under their headings: first a list of them, then the help of each."""
    from posnmt.cli.help import commands as under_headings
    from posnmt.cli.main import main as program

    context = click.Context(program, info_name="posnmt", **program.context_settings)
    lists, helps = [], []
    for heading, found in under_headings(program, context).items():
        rows = [(f"[{name}](#posnmt-{name})", text(each.get_short_help_str(99))) for name, each in found]
        lists.append(f"**{heading}**\n\n{table(('command', 'does'), rows)}")
        helps.append(f"## {heading}")
        for name, each in found:
            helps += _command(each, f"posnmt {name}", context)
    return "\n\n".join([*lists, *helps])


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    from posnmt.cli.help import parts, sections

    context = click.Context(command, info_name=name.split()[-1], parent=parent, **command.context_settings)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"{'#' * (len(name.split()) + 1)} {name}\n\n```\n{usage}\n```"
    prose, examples = parts(command.help or "")
    yield from (text(" ".join(paragraph.split())) for paragraph in prose)
    if examples:
        yield "```\n" + "\n".join(examples) + "\n```"
    for heading, options in sections(command, context).items():
        rows = [(f"`{names}`", text(" ".join(about.split()))) for names, about in options if "--help" not in names]
        if rows:
            yield ("" if heading == "Options" else f"**{heading}**\n\n") + table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _command(command.get_command(context, each), f"{name} {each}", context)  # type: ignore[arg-type]


# systems and schemes


def systems() -> str:
    """The named systems, those to begin with first."""
    from posnmt.config.systems import RECOMMENDED, SYSTEMS

    names = [*RECOMMENDED, *(name for name in SYSTEMS if name not in RECOMMENDED)]
    rows = [(f"`{name}`", text(SYSTEMS[name].summary), text(SYSTEMS[name].source)) for name in names]
    return table(("system", "is", "source"), rows)


def schemes() -> str:
    """The position schemes with their options."""
    return _parts("scheme")


def architectures() -> str:
    """The architectures with their options."""
    return _parts("architecture")


def _parts(kind: str) -> str:
    from posnmt.cli.systems import parts

    rows = []
    for part in parts():
        if part["kind"] != kind:
            continue
        options = [
            f"`{name}` ({_value(option['default'])}): {text(option['about'])}"
            for name, option in part["options"].items()
        ]
        rows.append((f"`{part['name']}`", text(part["about"]), "<br>".join(options) or "–"))
    return table((kind, "is", "options (default)"), rows)


# recipes

RECIPE = {
    "A scale": "Setting", "Corpora": "Text", "The artificial pair": "Artificial", "Languages": "Pair",
    "Resources": "ByKind", "Resources of a step": "Requested", "A system": "System", "A training": "Training",
    "A part by length": "Part", "A test": "Test", "Runs": "Runs", "A sweep": "Sweep", "A dimension": "Dimension",
    "An analysis": "Analysis", "A likelihood": "Likelihood", "A claim": "Claim", "A comparison": "Comparison",
    "A side of a comparison": "Figures", "An expectation": "Expected", "A published effect": "PublishedEffect",
    "A table": "Table", "A column": "Column", "Marks": "Marks", "A figure": "Figure", "A panel": "Panel",
    "A recommendation": "Recommend",
}  # fmt: skip
"""Heading on the page → section of a recipe."""


def recipe_keys() -> str:
    """A table for each section of a recipe."""
    from posnmt.study.recipe import Recipe

    schema = Recipe.model_json_schema()
    links = {
        name: f"[{re.sub('^an? ', '', title.lower())}](#{title.lower().replace(' ', '-')})"
        for title, name in RECIPE.items()
    }
    if missing := schema["$defs"].keys() - links.keys():
        raise ValueError(f"the sections {missing} of a recipe have no heading")
    parts = [f"## A recipe\n\n{_keys_table(schema, links)}"]
    for title, name in RECIPE.items():
        section = schema["$defs"][name]
        about = "\n\n".join(" ".join(each.split()) for each in section["description"].split("\n\n"))
        parts.append(f"## {title}\n\n{about}\n\n{_keys_table(section, links)}")
    return "\n\n".join(parts)


def _keys_table(section: Schema, links: dict[str, str]) -> str:
    rows = []
    for name, field in section["properties"].items():
        default = "required" if name in section.get("required", []) else _key_default(field.get("default"))
        rows.append((f"`{name}`", _shape(field, links), default, text(field["description"])))
    return table(("key", "value", "default", "meaning"), rows)


def _key_default(value: Any) -> str:
    """A default; sections stand for their own defaults."""
    if isinstance(value, dict):
        return ", ".join(f"`{name}`" for name in value if value.keys() == {"all"}) or "none"
    return "none" if value == [] else _value(value)


def _shape(field: Schema, links: dict[str, str]) -> str:
    """The values that a key takes; a section is a link to its table."""
    if options := field.get("anyOf"):
        return " or ".join(dict.fromkeys(_shape(each, links) for each in options if each.get("type") != "null"))
    if named := _name(field):
        return links[named]
    if field.get("type") == "array":
        return f"list of {_shape(field['items'], links)}"
    if field.get("type") == "object":
        inner = next(iter(field.get("patternProperties", {}).values()), field.get("additionalProperties"))
        what = _shape(inner, links) if isinstance(inner, dict) and inner.keys() - {"title"} else "settings"
        return f"scale → {what}" if "smoke" in field.get("propertyNames", {}).get("enum", []) else f"name → {what}"
    return _kind(field)


# claims


def claims() -> str:
    """The claims of the papers' recipes, each with the comparison that decides it and the published figures."""
    from posnmt.study.load import load, shipped

    rows = []
    for name in shipped():
        recipe = load(name, check_configs=False)
        rows += [_claim(recipe, claim) for claim in recipe.claims if recipe.paper]
    rows.sort(key=lambda row: int((re.match(r"\d+", row[0]) or ["99"])[0]))
    return table(("claim", "recipe", "statement", "test", "published BLEU", "primary"), rows)


def _claim(recipe: Any, claim: Any) -> tuple[str, ...]:
    from posnmt.study.wording import asked

    scale = "small" if "small" in claim.scales else claim.scales[-1]
    joined = claim.test.analysis in recipe.joined()
    test = asked(claim.test, scale, lambda name: recipe.label(recipe.variant(name)), joined)
    effect = claim.published_effect
    published = "–"
    if effect is not None:
        published = f"{effect.of:g} against {effect.than:g}, {effect.sentences:,} sentences"
    primary = ("yes" if claim.primary else "no") + ("" if claim.registered else ", later")
    return str(claim.claim), f"`{recipe.recipe}`", text(claim.says), text(test), published, primary


# Python

GROUPS = {
    "call": ("SearchOptions", "Settings of search that each translation takes."),
    "load": ("LoadOptions", "Settings of search that a model is loaded with."),
}
"""Where Python takes settings of search → the class of their names, and its docstring."""


def search_options() -> str:
    """The settings of search that Python takes, as TypedDicts, since mypy sees none that are made at run time."""
    from posnmt.config.marks import kind, offered
    from posnmt.config.schema import Decode

    parts = []
    for place, (name, says) in GROUPS.items():
        options = [*offered(Decode, lambda on, place=place: on.python == place)]  # type: ignore[misc]
        lines = [f"class {name}(TypedDict, total=False):", f'    """{says}', "", "    Attributes:"]
        for each in options:
            keys = [key for section in kind(each.field).types for key in getattr(section, "model_fields", ())]
            about = "; a mapping with ".join([f"{each.name}: {each.about}", *filter(None, [", ".join(keys)])])
            lines += textwrap.wrap(f"{about}.", 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
        lines += ['    """', "", *(f"    {each.name}: {_annotation(each.field)}" for each in options)]
        parts.append("\n".join(lines))
    return "\n\n\n".join(parts) + "\n"


def _annotation(field: Any) -> str:
    """The type of a setting as Python writes it; a section is a mapping."""
    from posnmt.config.marks import kind

    types, choices, _ = kind(field)
    literal = [f"Literal[{', '.join(json.dumps(each) for each in choices)}]"] if choices else []
    names = ["Mapping[str, Any]" if hasattr(each, "model_fields") else _type_name(each) for each in types]
    return " | ".join([*literal, *names, "None"])


def _type_name(kind: Any) -> str:
    return str(kind) if get_args(kind) else str(kind.__name__)


def python() -> str:
    """The public names: where each is defined, and the first sentence of its docstring.

    In the site `hooks.py` puts the whole docstrings in place of the rows.
    """
    import posnmt
    import posnmt.position as position

    top = {name: f"posnmt.{module}.{name}" for name, module in posnmt._MODULES.items()}
    schemes = {
        name: f"{getattr(position, name).__module__}.{name}"
        for name in position.__all__
        if name not in ("SCHEMES", "__version__")
    }
    schemes["SCHEMES"] = "posnmt_position.registry.SCHEMES"
    groups = {
        "posnmt": dict(sorted(top.items(), key=lambda item: item[0].lower())),
        "posnmt.position": dict(sorted(schemes.items(), key=lambda item: item[0].lower())),
        "posnmt.testing": {"check_scheme": "posnmt.testing.check_scheme"},
    }
    parts = []
    for package, names in groups.items():
        rows = [(f"`{package}.{name}`", f"`{path}`", text(_first_sentence(path))) for name, path in names.items()]
        parts.append(f"## {package}\n\n{table(('name', 'defined as', 'is'), rows)}")
    return "\n\n".join(parts)


# files


def results_database() -> str:
    """The columns of results.sqlite."""
    from posnmt.study.database import TABLES

    rows = [
        (f"`{name}`", f"`{column}`", kind.lower(), text(about))
        for name, columns in TABLES.items()
        for column, (kind, about) in columns.items()
    ]
    return table(("table", "column", "type", "contains"), rows)


def of_results(name: str) -> str:
    """A table of a page of results."""
    return table(*results.TABLES[name]())


# the code


def folders() -> str:
    """The folders of the package that hold modules, with the first sentence of their docstrings."""
    packages = [path for path in _folders() if (path / "__init__.py").is_file()]
    return table(
        ("folder", "contains"),
        [(f"`{path.relative_to(DOCS.parent).as_posix()}/`", text(_summary(path / "__init__.py"))) for path in packages],
    )


def _folders() -> list[Path]:
    packages = [DOCS.parent / "posnmt", DOCS.parent / "position" / "posnmt_position"]
    return sorted({path.parent for package in packages for path in package.rglob("*.py")})


def modules() -> str:
    """Every module by its folder, with the first sentence of its docstring."""
    parts = []
    for folder in _folders():
        files = [path for path in sorted(folder.glob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
        lines = [f"- `{path.name}`: {_summary(path)}" for path in files]
        name = folder.relative_to(DOCS.parent).as_posix()
        parts += [f"## {name}\n", f"{_summary(folder / '__init__.py')}\n", *lines, ""]
    return "\n".join(parts)


def _summary(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text_ = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text_.split("\n\n")[0].split())
    return SENTENCE_END.split(paragraph, maxsplit=1)[0].rstrip(":")


def _first_sentence(path: str) -> str:
    """Of the docstring of a function, a class, or an assignment (the string under it)."""
    module, _, name = path.rpartition(".")
    source = importlib.import_module(module)
    docstring = None
    body = ast.parse(inspect.getsource(source)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            docstring = ast.get_docstring(node)
        elif isinstance(target, ast.Name) and target.id == name and isinstance(after, ast.Expr):
            docstring = str(getattr(after.value, "value", ""))
    if not docstring:
        raise ValueError(f"{path} has no docstring")
    return re.split(r"\n\n|(?<=[.:])\s", " ".join(docstring.split("\n\n")[0].split()))[0].rstrip(":")


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "commands": commands,
    "systems": systems,
    "schemes": schemes,
    "architectures": architectures,
    "modules": modules,
    "folders": folders,
    "results database": results_database,
    "recipe keys": recipe_keys,
    "claims": claims,
    "python": python,
    "search options": search_options,
    **{name: partial(of_results, name) for name in results.TABLES},
}

if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
