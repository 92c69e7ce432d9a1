"""The packages that are carried to a GPU machine."""

from __future__ import annotations

from importlib.metadata import distribution

from packaging.requirements import Requirement

from benchmarks.gpu_pack import canonical, missing, requirements, roots
from benchmarks.peers.fairseq_pack import BUILDERS, CARRIED, CONSTRAINTS, pinned


def names(found: list[str]) -> set[str]:
    return {canonical(each.partition("==")[0]) for each in found}


def test_what_is_there_is_left_out_with_what_it_needs() -> None:
    assert missing(roots(), {canonical(each.name) for each in roots()}, "3.12") == []
    everything = names(missing(roots(), set(), "3.12"))
    without = names(missing(roots(), {"pydantic"}, "3.12"))
    assert {"pydantic", "pydantic-core", "annotated-types"} <= everything - without


def test_everything_that_a_carried_package_needs_is_carried_or_there() -> None:
    have = {"torch", "numpy", "pyarrow", "pytest"}
    found = missing(roots(), have, "3.12")
    assert "sacremoses" in names(found)
    for name in names(found):
        needed = requirements(distribution(name).requires or [], "3.12")
        assert {canonical(each.name) for each in needed} <= names(found) | have, name
    assert all(each == f"{each.partition('==')[0]}=={distribution(each.partition('==')[0]).version}" for each in found)


def test_a_requirement_of_an_extra_or_of_another_system_is_not_needed() -> None:
    lines = ["joblib", "pytest; extra == 'dev'", "colorama; sys_platform == 'win32'", "tomli; python_version < '3.11'"]
    assert list(requirements(lines, "3.12")) == [Requirement("joblib")]
    assert [each.name for each in requirements(lines, "3.10")] == ["joblib", "tomli"]


def test_what_is_carried_and_built_for_fairseq_has_a_version() -> None:
    assert pinned("# a comment with ==\nantlr4-python3-runtime==4.8\n# then\nnumpy==1.23.5\n") == {
        "antlr4-python3-runtime": "antlr4-python3-runtime==4.8",
        "numpy": "numpy==1.23.5",
    }
    assert {*CARRIED, *BUILDERS} <= pinned(CONSTRAINTS.read_text(encoding="utf-8")).keys()
