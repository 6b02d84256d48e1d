"""Shared configuration: the depth of the run, a seed that reproduces the run, and DynamoDB Local."""

import os
from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from hypothesis import settings

from tests.support.dynamodb_servers import ENGINE, Server, ServerUnavailable, dynamodb_local, engine_or_skip
from tests.support.engines_report import RAN, report_engines
from tests.support.run_depth import DEEP_EXAMPLES, QUICK_EXAMPLES

# Show values in the assertions of helper modules too.
for package in (
    *("clients", "evolution", "faults", "laws", "ops", "query", "same_pages", "schema", "server", "storage"),
    *("store_contract", "verification", "write_guarantees", "writes"),
):
    pytest.register_assert_rewrite(f"tests.{package}")

SEED_OPTION = "--hypothesis-seed"
DEEP_TIMEOUT_SECONDS = 3 * 3600
"""for each deep test; `pyproject.toml` sets that of the others"""

settings.register_profile("quick", max_examples=QUICK_EXAMPLES, deadline=None, print_blob=True)
settings.register_profile("deep", max_examples=DEEP_EXAMPLES, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--deep`."""
    parser.addoption(
        "--deep", action="store_true", help="run the deep tests too, and every property test with many more examples"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Selects depth and seed before Hypothesis reads its options. Worker processes inherit both."""
    settings.load_profile("deep" if config.getoption("--deep") else "quick")
    if config.getoption("--deep") and config.getoption("timeout") is None:
        config.option.timeout = DEEP_TIMEOUT_SECONDS
    if config.getoption(SEED_OPTION) is None:
        config.option.hypothesis_seed = str(SystemRandom().randrange(2**32))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The number of test processes: one more than there are CPUs, since many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


def replay(config: pytest.Config) -> str:
    """The command that repeats the run with the same seed."""
    deep = " --deep" if config.getoption("--deep") else ""
    return f"replay: scripts/test{deep} {SEED_OPTION}={config.getoption(SEED_OPTION)}"


def pytest_report_header(config: pytest.Config) -> str:
    """Prints the replay command at the start of the run."""
    return replay(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints which engines ran and, if tests failed, the replay command."""
    report_engines(terminalreporter)
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(replay(config))


class FailureNames:
    """Prints the name of each failing test at once, not only at the end of the run."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.ensure_newline()
            self._reporter.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Registers the plugin in the controller process; workers have no terminal."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(FailureNames(reporter))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips deep tests in a quick run."""
    if config.getoption("--deep"):
        return
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="deep: runs with --deep"))


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """A random generator from the run's seed and the test's name, for tests outside of Hypothesis."""
    return Random(f"{request.config.getoption(SEED_OPTION)} {request.node.nodeid}")


@pytest.fixture(scope="session")
def local_dynamodb() -> Iterator[Server | ServerUnavailable]:
    """DynamoDB Local, or the reason why it is unavailable."""
    try:
        with dynamodb_local() as server:
            yield server
    except ServerUnavailable as problem:
        yield problem


@pytest.fixture
def dynamodb(local_dynamodb: Server | ServerUnavailable, request: pytest.FixtureRequest) -> Server:
    """DynamoDB Local. If it is unavailable, skips the test, or fails it when CI=true."""
    server = engine_or_skip(local_dynamodb, ENGINE, request)
    request.node.user_properties.append((RAN, ENGINE))
    return server
