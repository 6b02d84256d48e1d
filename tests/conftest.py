"""What every test shares: the depth of the run, one seed from which a run can be replayed, and DynamoDB Local."""

from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from hypothesis import settings

from tests.depth import DEEP_EXAMPLES, QUICK_EXAMPLES
from tests.dynamodb_local import ENGINE, NoServer, Server, dynamodb_local, running
from tests.engines_report import RAN, report_engines

# Assertions of helpers tell what they have met, too.
for room in ("clients", "faults", "histories", "laws", "same_pages", "schema", "store_contract", "unit", "writes"):
    pytest.register_assert_rewrite(f"tests.{room}")

SEED_OPTION = "--hypothesis-seed"

settings.register_profile("quick", max_examples=QUICK_EXAMPLES, deadline=None, print_blob=True)
settings.register_profile("deep", max_examples=DEEP_EXAMPLES, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--deep`."""
    parser.addoption(
        "--deep", action="store_true", help="run the deep tests too, and every law with many more examples"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Chooses depth and seed before Hypothesis reads its own options; workers inherit both from the first process."""
    settings.load_profile("deep" if config.getoption("--deep") else "quick")
    if config.getoption(SEED_OPTION) is None:
        config.option.hypothesis_seed = str(SystemRandom().randrange(2**32))


def replay(config: pytest.Config) -> str:
    """The command that draws the same cases again."""
    deep = " --deep" if config.getoption("--deep") else ""
    return f"replay: scripts/test{deep} {SEED_OPTION}={config.getoption(SEED_OPTION)}"


def pytest_report_header(config: pytest.Config) -> str:
    """Says at the head of the run how to replay it."""
    return replay(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which engines ran, and below failures how to replay them, which is all that a quiet run shows."""
    report_engines(terminalreporter)
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(replay(config))


class FailureNames:
    """Writes the name of each failing test when it fails, not only at the end of the run."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.ensure_newline()
            self._reporter.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Registers the plugin in the first process of a run; workers have no terminal."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(FailureNames(reporter))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the deep tests out of a quick run, and says so."""
    if config.getoption("--deep"):
        return
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="deep: runs with --deep"))


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """Random samples for a test outside of Hypothesis, drawn from the run's seed and the test's name."""
    return Random(f"{request.config.getoption(SEED_OPTION)} {request.node.nodeid}")


@pytest.fixture(scope="session")
def local_dynamodb() -> Iterator[Server | NoServer]:
    """DynamoDB Local, or why it does not run here."""
    try:
        with dynamodb_local() as server:
            yield server
    except NoServer as problem:
        yield problem


@pytest.fixture
def dynamodb(local_dynamodb: Server | NoServer, request: pytest.FixtureRequest) -> Server:
    """DynamoDB Local; without it only continuous integration fails."""
    server = running(local_dynamodb, ENGINE, request)
    request.node.user_properties.append((RAN, ENGINE))
    return server
