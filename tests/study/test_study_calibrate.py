"""What `study plan` times, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from posnmt.study import calibrate
from posnmt.study.load import load
from posnmt.study.plan import plan


def test_updates_and_translations_of_a_system_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of search belong to the translations alone, so the trainings of a system have none of them."""
    timed: list[int] = []

    def seconds(work: Any, times: int, device: Any) -> float:
        timed.append(times)
        return 0.5

    monkeypatch.setattr(calibrate, "_seconds", seconds)
    said: list[str] = []
    made = plan(load("choose"), "smoke", None)
    costs: dict[str, Any] = calibrate.costs(made, said.append)
    systems = [f"timing {system}" for system in ("transformer", "relative", "rope", "lstm", "rr")]
    assert sorted(said) == sorted(f"{each}, {what}" for each in systems for what in ("updates", "translations"))
    assert sorted(timed) == [1] * 5 + [3] * 5
    of_token = 0.5 / (calibrate.TOKENS // calibrate.LENGTH * calibrate.LENGTH)
    assert costs["train/rr/all/seed-1"].seconds == pytest.approx(20 * 1024 * of_token)
    assert costs["translate/rr/all/seed-2/test"].seconds == pytest.approx(60 * calibrate.LENGTH * of_token)
