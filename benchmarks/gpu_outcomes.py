"""A plugin of pytest that writes a line of JSON to the file OUTCOMES as each test ends: pytest -p gpu_outcomes."""

from __future__ import annotations

import json
import os
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """Write a test's outcome; of a process that runs tests for another one, only the other writes."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    line = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 1)}
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        line["why"] = str(crash.message if crash else report.longrepr)[-1500:]
    if report.skipped:
        line["why"] = str(report.longrepr[-1])
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
