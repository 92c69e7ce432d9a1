"""Verdicts of a published study by today's rule, beside those of its published report; nothing is trained.

    python benchmarks/verdicts_anew.py docs/results/chen2019a-small --data ../shared/data --work /tmp/anew

Printed is a row for each claim; `--markdown PAGE` writes them into a page, between `<!-- begin chen2019a -->` and `<!--
end chen2019a -->`. The claims are those of the copy's recipe, the translations those of the copy. A copy with the
translations of some seeds needs `--earlier`, a folder with all of them as TEST.csv.xz, as earlier commits have them
(`git archive COMMIT docs/results/NAME/translations`); where both have a translation it must be the same. Test texts,
subwords and counts are made in the folder `--work`, once.
"""

from __future__ import annotations

import argparse
import html
import json
import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.base.files import read_json
from posnmt.base.output import write_text
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.study import evidence, speed
from posnmt.study.claims import Claim
from posnmt.study.compatible import compatibility
from posnmt.study.copied import MARK, OF_RUN, Copy, column_of, name_of
from posnmt.study.load import load
from posnmt.study.measures import SPEEDS as MEASURES_OF_SPEED
from posnmt.study.packed import separated
from posnmt.study.plan import KINDS, Plan, analyses, plan
from posnmt.study.steps import documents, measured
from posnmt.study.study import rules_of
from posnmt.study.verdict import LEVEL, Decision, Rules, Verdict, corrected, counts, decide, shown_p
from posnmt.study.wording import amount, asked, signed
from posnmt.study.workflow import runner
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph, with_needs
from posnmt.study.workflow.kind import Context, Resources

OF_CLAIM = re.compile(r'<section class="claim (\w+)".*?</span> (.*?)</h3>(.*?)</section>', re.DOTALL)
OF_COMPARISON = re.compile(
    r"(Supported|Contradicted|Undecided): (?:whether )?([^<>]*?)\. (?:On|In) ([\d,]+) "
    r"[^<>]*?95 % interval (\S+) to ([^\s<]+)"
)
HEAD = (
    "claim", "statement", "published claim", "the same comparison, published", "by the rule",
    "difference (95 % interval)", "by Welch's test", "p", "after Holm", "compatible with the paper's effect",
)  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A claim as the published report has it.

    Attributes:
        name: such as "9, encoder".
        word: the verdict.
        comparisons: what is asked, and the number of sentences (or turns) -> the verdict with its interval.
    """

    name: str
    word: str
    comparisons: dict[tuple[str, str], str]


def main() -> None:
    """Print the table of one study, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copy", type=Path)
    parser.add_argument("--earlier", type=Path, help="a folder with the translations of all seeds")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the table into this page")
    options = parser.parse_args()
    copy, work = Copy(options.copy.resolve()), options.work.resolve()
    scale = (read_json(copy.folder / MARK) or {})["scale"]
    study_plan = plan(load(str(copy.folder / "recipe.yaml"), check_configs=False), scale, options.data)
    folders = _steps(study_plan, work)
    _write_outputs(study_plan, copy, options.earlier, folders)
    claims = [claim.model_copy(update={"beside": []}) for claim in study_plan.recipe.claims_at(scale)]
    proof = _evidence(study_plan, claims, folders, work)
    rules = rules_of(study_plan, _speeds(copy), folders)
    verdicts = corrected([decide(claim, proof, rules) for claim in claims])
    text = "\n".join(_lines(verdicts, published(copy.folder), rules))
    if options.markdown is None:
        print(text)
    else:
        _fill(options.markdown, study_plan.recipe.recipe, text)


def _fill(page: Path, name: str, text: str) -> None:
    """Write a text between the marks of a page."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise UserError(f"there is no place for {name}", page, f"write a line {begin.strip()} and a line {end} into it")
    write_text(page, f"{before}{begin}\n{text}\n\n{end}{after}")


def _lines(verdicts: Sequence[Verdict], before: Sequence[Published], rules: Rules) -> Iterator[str]:
    """How many claims there are of each verdict, and the table."""
    primary = [verdict for verdict in verdicts if verdict.claim.primary]
    kept = sum(verdict.after_holm for verdict in primary)
    later = sum(verdict.after_holm and not verdict.claim.registered for verdict in primary)
    changed = f"{later} of these {'was' if later == 1 else 'were'} added or changed later"
    yield f"{counts(verdicts)}. Of {len(primary)} primary claims {kept} hold after Holm; {changed}."
    yield ""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    yield from (f"| {' | '.join(_row(verdict, before, rules))} |" for verdict in verdicts)


def _row(verdict: Verdict, before: Sequence[Published], rules: Rules) -> tuple[str, ...]:
    """A row of the table."""
    claim, decision = verdict.claim, verdict.primary
    earlier, then = same(verdict, before, rules)
    value = "" if decision.value is None else amount(decision.comparison, decision.value)
    welch = "" if decision.welch is None else _interval(decision, *decision.welch.interval(LEVEL))
    rule = "" if decision.low is None or decision.high is None else _interval(decision, decision.low, decision.high)
    answer = compatibility(claim, decision, rules.scale)
    effect = "" if answer.published is None else f": published {amount(claim.test, answer.published)}"
    return (
        str(claim.claim) + ("" if claim.registered else ", later"),
        claim.says,
        f"{earlier.name}: {earlier.word}" if earlier else "–",
        then or "–",
        f"**{verdict.word}**{' after Holm' * verdict.after_holm}",
        f"{value} ({rule})" if rule else value or decision.why,
        "the same" if welch and not decision.systems else welch or "–",
        "–" if decision.p is None else shown_p(decision.p).removeprefix("= "),
        "not primary" if verdict.holm is None else shown_p(verdict.holm).removeprefix("= "),
        f"{answer.word}{', imprecise' if answer.imprecise else ''}{effect}",
    )


def _interval(decision: Decision, low: float, high: float) -> str:
    """The ends of an interval; those of a relative comparison in per cent, as the value is."""
    unit = 100 if decision.comparison.relative else 1
    return f"{signed(unit * low)} to {signed(unit * high)}"


def same(verdict: Verdict, before: Sequence[Published], rules: Rules) -> tuple[Published | None, str]:
    """The published claim that a claim comes from, and what was published of its very comparison.

    It comes from the one of its number that has the comparison, or else from the first of its number.
    """
    number = _number(str(verdict.claim.claim))
    family = [each for each in before if _number(each.name) == number]
    sentences = re.search(r"[\d,]+", verdict.primary.why)
    key = asked(verdict.claim.test, rules.scale, rules.label), sentences[0] if sentences else ""
    for each in family:
        if key in each.comparisons:
            return each, each.comparisons[key]
    return next(iter(family), None), ""


def _number(name: str) -> str:
    """The number that the name of a claim begins with; empty if it begins with none."""
    return name[: len(name) - len(name.lstrip("0123456789"))]


def published(copy: Path) -> list[Published]:
    """The claims of the published report."""
    claims = []
    for word, title, rest in OF_CLAIM.findall((copy / "report.html").read_text(encoding="utf-8")):
        comparisons = {
            (html.unescape(what), number): f"{each.lower()} ({low} to {re.sub(r'[,;.]+$', '', high)})"
            for each, what, number, low, high in OF_COMPARISON.findall(rest)
        }
        claims.append(Published(html.unescape(title).partition(". ")[0], word, comparisons))
    return claims


def _steps(study_plan: Plan, work: Path) -> dict[str, Path]:
    """Make texts and subwords; name -> folder of every step."""
    graph = Graph(study_plan.steps.values(), KINDS)
    texts = [step for steps in study_plan.tests.values() for step in steps.values()]
    prepared = [name for name, step in study_plan.steps.items() if step.kind == "prepare"]
    needed = with_needs(study_plan.steps, [*texts, *prepared])
    steps = [step for name, step in study_plan.steps.items() if name in needed]
    summary = runner.run(Graph(steps, KINDS), work, Where(jobs=1), print)
    if summary.failed:
        raise UserError("; ".join(summary.failed.values()), work)
    return {name: graph.folder(work, name) for name in study_plan.steps}


def _write_outputs(study_plan: Plan, copy: Copy, earlier: Path | None, folders: dict[str, Path]) -> None:
    """The records of all trainings, and their translations, where a study has them."""
    tests = {test for run in study_plan.runs for test in run.translations}
    columns = {test: _columns(copy, earlier, test) for test in tests}
    for run in study_plan.runs:
        folder = folders[run.train] / "run"
        folder.mkdir(parents=True, exist_ok=True)
        for name in OF_RUN:
            (folder / name).write_bytes(copy.file(name_of(run), name))
        for test, step in run.translations.items():
            shares = [0, *study_plan.recipe.tests[test].swap]
            outputs = ["output" if not share else f"output-{share:g}" for share in shares]
            folders[step].mkdir(parents=True, exist_ok=True)
            for output in outputs:
                (folders[step] / output).write_bytes(columns[test][column_of(name_of(run), output)])
            speeds = {output: {"lines": 1, "source_subwords": 1, "seconds": 1.0} for output in outputs}  # not asked for
            (folders[step] / "speed.json").write_text(json.dumps(speeds))


def _columns(copy: Copy, earlier: Path | None, test: str) -> dict[str, bytes]:
    """All translations of a test."""
    now = copy.translations(test)
    if earlier is None:
        return now
    file = earlier / f"{test}.csv.xz"
    before = separated(lzma.decompress(file.read_bytes()), file)
    if differ := [name for name, content in now.items() if before.get(name, content) != content]:
        raise UserError(f"translations differ: {', '.join(differ)}", file)
    return {**before, **now}


def _evidence(
    study_plan: Plan, claims: list[Claim], folders: dict[str, Path], work: Path
) -> dict[str, evidence.Evidence]:
    """The analyses that the claims need, counted without intervals."""
    wanted = {claim.test.analysis for claim in claims}
    measures = {claim.test.measure for claim in claims} | {"bleu", "multi-bleu"}  # the floor
    steps, _ = analyses(study_plan, study_plan.steps)
    found = {}
    for name in sorted(wanted):
        folder = work / "counted" / name
        if not (folder / evidence.OUTPUTS).exists():
            step = steps[name]
            folder.mkdir(parents=True, exist_ok=True)
            inputs = {role: folders[need] for role, need in step.needs.items()}
            metrics = [metric for metric in step.settings["metrics"] if metric in measures]
            settings = {**step.settings, "metrics": metrics}
            context = Context(folder, settings, inputs, {}, Resources(), print)
            analysis, outputs = measured(context, Resampling(samples=0))
            evidence.save(folder, analysis.additive, analysis.source_lengths, outputs, documents(context))
        found[name] = evidence.load(folder)
    return found


def _speeds(copy: Copy) -> dict[speed.Variant, speed.Speeds] | None:
    """The speeds that the copy has, measured in turn."""
    if copy.speeds is None:
        return None
    return {
        (each["system"], each["training"]): {measure: each[measure] for measure in MEASURES_OF_SPEED}
        for each in copy.speeds["systems"]
    }


if __name__ == "__main__":
    main()
