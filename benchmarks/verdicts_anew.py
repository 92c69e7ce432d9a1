"""Verdicts of a published study by today's rule, beside those of its published report; nothing is trained.

    python benchmarks/verdicts_anew.py docs/results/chen2019a-small --data ../shared/data --work /tmp/anew

Printed is a row for each claim with a primary comparison. The claims are those of the copy's recipe, the translations
those of the copy. A copy with the translations of some seeds needs `--earlier`, an earlier copy with all of them (`git
archive COMMIT docs/results/NAME`); where both have a translation it must be the same. Test texts and subwords are made
in the folder `--work`, once.
"""

from __future__ import annotations

import argparse
import html
import json
import re
from pathlib import Path

from posnmt.analyse.measure import Resampling
from posnmt.errors import UserError
from posnmt.files import read_json
from posnmt.study import evidence, speed
from posnmt.study.adopt import MARK, METRICS, SPEEDS, column_of, folder_of, translations_of
from posnmt.study.claims import SPEEDS as MEASURES_OF_SPEED
from posnmt.study.claims import Claim
from posnmt.study.load import load
from posnmt.study.packed import unpack, unpack_outputs
from posnmt.study.plan import KINDS, Plan, analyses, plan
from posnmt.study.steps import measured
from posnmt.study.study import rules_of
from posnmt.study.verdict import Decision, Verdict, corrected, counts, decide, shown_p
from posnmt.study.wording import amount
from posnmt.workflow import runner
from posnmt.workflow.graph import Graph, with_needs
from posnmt.workflow.kind import Context, Resources

OF_CLAIM = re.compile(r'<section class="claim (\w+)".*?</span> (.*?)</h3>\s*<p>(.*?)</p>', re.DOTALL)
INTERVAL = re.compile(r"95 % interval (\S+) to ([^\s,;.]+(?:\.\d+)?)")


def main() -> None:
    """Print the table of one study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copy", type=Path)
    parser.add_argument("--earlier", type=Path, help="a copy with the translations of all seeds")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    copy, work = options.copy.resolve(), options.work.resolve()
    scale = (read_json(copy / MARK) or {})["scale"]
    study_plan = plan(load(str(copy / "recipe.yaml"), check_configs=False), scale, options.data)
    folders = _steps(study_plan, work)
    _write_outputs(study_plan, copy, options.earlier, folders)
    claims = study_plan.recipe.claims_at(scale)
    proof = _evidence(study_plan, claims, folders, work)
    speeds = _speeds(copy)
    rules = rules_of(study_plan, speeds, folders)
    verdicts = corrected([decide(claim, proof, rules) for claim in claims])
    before = _published(copy)
    print("| claim | before | now | D | 95 % interval by the rule | by Welch's test | p | after Holm | block |")
    print("|---|---|---|---|---|---|---|---|---|")
    for verdict in verdicts:
        print(_row(verdict, before[str(verdict.claim.claim)]))
    print(f"\n{study_plan.recipe.recipe}: {counts(verdicts)}")


def _row(verdict: Verdict, before: tuple[str, str]) -> str:
    """A row of the table."""
    decision = verdict.comparisons[0]
    now = verdict.word + " after Holm" * verdict.after_holm
    word, interval = before
    shown = f"{word} ({interval})" if interval else word
    p = "" if decision.p is None else shown_p(decision.p).removeprefix("= ")
    holm = "" if verdict.holm is None else shown_p(verdict.holm).removeprefix("= ")
    value = "" if decision.value is None else amount(decision.comparison, decision.value)
    rule, welch = _intervals(decision)
    block = f"{decision.systems} systems" if decision.systems else "none"
    return f"| {verdict.claim.claim} | {shown} | {now} | {value} | {rule} | {welch} | {p} | {holm} | {block} |"


def _intervals(decision: Decision) -> tuple[str, str]:
    """The intervals by the rule and by Welch's test."""
    if decision.low is None or decision.high is None:
        return decision.why, ""
    unit = 100 if decision.comparison.relative else 1
    ends = [(decision.low, decision.high), decision.welch.interval(0.95) if decision.welch else None]
    rule, welch = (f"{unit * each[0]:.2f} to {unit * each[1]:.2f}" if each else "" for each in ends)
    return rule, welch


def _published(copy: Path) -> dict[str, tuple[str, str]]:
    """Claim -> verdict and interval in the published report."""
    page = (copy / "report.html").read_text(encoding="utf-8")
    before = {}
    for word, title, why in OF_CLAIM.findall(page):
        name = html.unescape(title).partition(". ")[0]
        ends = INTERVAL.search(html.unescape(why))
        before[name] = word, f"{ends[1]} to {ends[2]}" if ends else ""
    return before


def _steps(study_plan: Plan, work: Path) -> dict[str, Path]:
    """Make texts and subwords; name -> folder of every step."""
    graph = Graph(study_plan.steps.values(), KINDS)
    texts = [step for steps in study_plan.tests.values() for step in steps.values()]
    prepared = [name for name, step in study_plan.steps.items() if step.kind == "prepare"]
    needed = with_needs(study_plan.steps, [*texts, *prepared])
    steps = [step for name, step in study_plan.steps.items() if name in needed]
    summary = runner.run(Graph(steps, KINDS), work, jobs=1, say=print)
    if summary.failed:
        raise UserError("; ".join(summary.failed.values()), work)
    return {name: graph.folder(work, name) for name in study_plan.steps}


def _write_outputs(study_plan: Plan, copy: Path, earlier: Path | None, folders: dict[str, Path]) -> None:
    """The records of all trainings, and their translations, where a study has them."""
    tests = {test for run in study_plan.runs for test in run.translations}
    columns = {test: _columns(copy, earlier, test) for test in tests}
    for run in study_plan.runs:
        place = folder_of(copy, run)
        folder = folders[run.train] / "run"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.yaml", "record.json"):
            (folder / name).write_bytes((place / name).read_bytes())
        (folder / "metrics.jsonl").write_bytes(unpack(place / METRICS))
        for test, step in run.translations.items():
            shares = [0, *study_plan.recipe.tests[test].swap]
            outputs = ["output" if not share else f"output-{share:g}" for share in shares]
            folders[step].mkdir(parents=True, exist_ok=True)
            for output in outputs:
                (folders[step] / output).write_bytes(columns[test][column_of(place, output)])
            speeds = {output: {"lines": 1, "source_subwords": 1, "seconds": 1.0} for output in outputs}  # not asked for
            (folders[step] / "speed.json").write_text(json.dumps(speeds))


def _columns(copy: Path, earlier: Path | None, test: str) -> dict[str, bytes]:
    """All translations of a test."""
    now = unpack_outputs(translations_of(copy, test))
    if earlier is None:
        return now
    before = unpack_outputs(translations_of(earlier, test))
    if differ := [name for name, content in now.items() if before.get(name, content) != content]:
        raise UserError(f"translations differ: {', '.join(differ)}", translations_of(earlier, test))
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
            evidence.save(folder, analysis.additive, analysis.source_lengths, outputs)
        found[name] = evidence.load(folder)
    return found


def _speeds(copy: Path) -> dict[speed.Variant, speed.Speeds] | None:
    """The speeds that the copy has, measured in turn."""
    systems = (read_json(copy / SPEEDS) or {}).get("systems")
    if systems is None:
        return None
    return {
        (each["system"], each["training"]): {measure: each[measure] for measure in MEASURES_OF_SPEED}
        for each in systems
    }


if __name__ == "__main__":
    main()
