"""The last lines of a run: which engines the contract was tried on, what they lack, which did not run, and why."""

from collections import Counter

import pytest

RAN, LACKS, DID_NOT_RUN = "engine ran", "engine lacks", "engine did not run"
"""the properties by which tests tell of their engine, also to the first process of a run in several"""


def report_engines(reporter: pytest.TerminalReporter) -> None:
    """Writes a line for each engine that tests have told of."""
    told: dict[str, Counter[str]] = {RAN: Counter(), LACKS: Counter(), DID_NOT_RUN: Counter()}
    for reports in reporter.stats.values():
        for report in reports:
            when = getattr(report, "when", None)
            for name, value in _properties(report) if when in {"call", "setup"} else ():
                if (name == RAN) == (when == "call"):  # what was skipped has not got beyond its setup
                    told[name][value] += 1
    for engine, tests in sorted(told[RAN].items()):
        lacking = sorted(value.partition(": ")[2] for value in told[LACKS] if value.startswith(f"{engine}: "))
        lacks = f"; it lacks: {', '.join(lacking)}" if lacking else ""
        reporter.write_line(f"engine {engine}: ran {tests} tests of stores{lacks}")
    for reason in sorted(told[DID_NOT_RUN]):
        reporter.write_line(f"engine {reason.replace(': ', ' did not run: ', 1)}")


def _properties(report: pytest.TestReport) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in report.user_properties if name in {RAN, LACKS, DID_NOT_RUN}]
