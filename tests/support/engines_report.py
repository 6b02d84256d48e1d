"""The summary of engines at the end of a run: which ran, which features they lack, which did not run."""

from collections import Counter

import pytest

RAN, LACKS, DID_NOT_RUN = "engine ran", "engine lacks", "engine did not run"
"""names of test report properties; pytest-xdist passes them to the controller process"""


def report_engines(reporter: pytest.TerminalReporter) -> None:
    """Writes one summary line for each engine."""
    counts: dict[str, Counter[str]] = {RAN: Counter(), LACKS: Counter(), DID_NOT_RUN: Counter()}
    for reports in reporter.stats.values():
        for report in reports:
            when = getattr(report, "when", None)
            for name, value in _properties(report) if when in {"call", "setup"} else ():
                if (name == RAN) == (when == "call"):  # skipped tests have no "call" phase
                    counts[name][value] += 1
    for engine, tests in sorted(counts[RAN].items()):
        lacking = sorted(value.partition(": ")[2] for value in counts[LACKS] if value.startswith(f"{engine}: "))
        lacks = f"; it lacks: {', '.join(lacking)}" if lacking else ""
        reporter.write_line(f"engine {engine}: ran {tests} tests of stores{lacks}")
    for reason in sorted(counts[DID_NOT_RUN]):
        reporter.write_line(f"engine {reason.replace(': ', ' did not run: ', 1)}")


def _properties(report: pytest.TestReport) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in report.user_properties if name in {RAN, LACKS, DID_NOT_RUN}]
