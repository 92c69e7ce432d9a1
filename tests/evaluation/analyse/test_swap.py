"""Swap curves: the command line's form, and scores by share."""

import json
import re

import pytest
import sacrebleu

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.swap import parse_swapped, swap_curves
from tests.support.analyse_case import OUTPUT, REFERENCE, SOURCE


def test_swapped_outputs_on_the_command_line():
    swapped = parse_swapped(["a:0.1=x=y.txt", "b:1:0.25=z", "a:1=w"], ["a", "b:1"])
    assert {key: str(path) for key, path in swapped.items()} == {
        ("a", 0.1): "x=y.txt", ("b:1", 0.25): "z", ("a", 1.0): "w"
    }  # fmt: skip


def test_every_fault_of_swapped_outputs_at_once():
    with pytest.raises(UserError) as caught:
        parse_swapped(
            ["a=x", "a:0=x", "a:1.5=x", "a:ten=x", "a:nan=x", "c:0.1=x", "a:0.1", "a:0.2=x", "a:0.20=y"], ["a"]
        )
    assert len(caught.value.lines) == 8
    assert sum("a share above 0 and at most 1" in line for line in caught.value.lines) == 6
    assert any("no output is called 'c'" in line and "choose from a" in line for line in caught.value.lines)
    assert any("two outputs for the share 0.2" in line for line in caught.value.lines)


def test_curves_rise_in_the_share():
    names = [("a", 0.0), ("b", 0.0), ("a", 0.5), ("a", 0.2)]
    curves = swap_curves(names, {"bleu": [[40.0, 30.0, 10.0, 20.0]]}, {"bleu": [[[39, 41], None, [9, 11], [19, 21]]]})
    assert curves == [
        {
            "name": "a",
            "shares": [0, 0.2, 0.5],
            "bleu": [40, 20, 10],
            "intervals": {"bleu": [[39, 41], [19, 21], [9, 11]]},
        }
    ]
    assert swap_curves(names[:2], {"bleu": [[1.0, 2.0]]}, {}) == []


def test_an_analysis_with_swapped_sources(run, files, tmp_path):
    spoilt = [" ".join(reversed(line.split(" "))) for line in OUTPUT]
    swapped = {("ours", 0.3): files("s3", spoilt), ("ours", 0.1): files("s1", OUTPUT)}
    results = run({"ours": OUTPUT, "theirs": REFERENCE}, swapped=swapped)
    (curve,) = results["swap"]
    assert curve["shares"] == [0, 0.1, 0.3]
    worst = sacrebleu.corpus_bleu(spoilt, [REFERENCE]).score
    assert curve["bleu"] == pytest.approx([results["systems"][0]["overall"]["bleu"]] * 2 + [worst])
    overall = results["systems"][0]["intervals"]["overall"]["bleu"]
    assert curve["intervals"]["bleu"][:2] == [overall, overall]
    assert [each["name"] for each in results["systems"]] == ["ours", "theirs"]
    assert len(results["significance"]["metrics"]["bleu"]["differences"]) == 2
    assert [each["role"] for each in results["inputs"]][-2:] == ["output at 0.3", "output at 0.1"]
    assert json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8")) == results


def test_swapped_outputs_are_aligned_too(run, files):
    short = files("s", OUTPUT[:-1])
    with pytest.raises(UserError, match="different line counts") as caught:
        run(swapped={("ours", 0.5): short})
    counts = re.findall(r"(\S+) has (\d+)", caught.value.what)
    assert [int(count) for _, count in counts] == [len(SOURCE)] * (len(counts) - 1) + [len(OUTPUT) - 1]
    assert counts[-1][0] == str(short)
