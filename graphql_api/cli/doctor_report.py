"""The report of `shardql doctor`: the results of its checks and the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphql_api.cli.exit_codes import FINDINGS, exit_code
from graphql_api.errors import InvalidCatalog, ShardQLError
from graphql_api.server import SettingValue

CheckStatus: TypeAlias = Literal["fine", "note", "finding", "wrong"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    topic: str
    status: CheckStatus
    message: str
    remedy: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the result under the documented keys of `shardql doctor --json`."""
        return {"about": self.topic, "standing": self.status, "told": self.message, "remedy": self.remedy}


@dataclass(slots=True)
class DoctorReport:
    """The results of all checks. The exit code is that of the most severe result."""

    checks: list[CheckResult] = field(default_factory=list)
    settings: tuple[SettingValue, ...] = ()
    code: int = 0

    def add_ok(self, topic: str, message: str) -> None:
        """Report that something is in order."""
        self.checks.append(CheckResult(topic, "fine", message))

    def add_note(self, topic: str, message: str, remedy: str | None = None) -> None:
        """Report something that may be intended, but has a cost or a risk."""
        self.checks.append(CheckResult(topic, "note", message, remedy))

    def add_finding(self, topic: str, message: str, remedy: str | None = None) -> None:
        """Report something that should be changed."""
        self.checks.append(CheckResult(topic, "finding", message, remedy))
        self.code = max(self.code, FINDINGS)

    def add_failure(self, topic: str, message: str, code: int, remedy: str | None = None) -> None:
        """Report something that cannot work."""
        self.checks.append(CheckResult(topic, "wrong", message, remedy))
        self.code = max(self.code, code)

    @contextmanager
    def errors_as_failures(self, topic: str) -> Iterator[None]:
        """Report every ShardQLError within the block as a failure of this topic."""
        try:
            yield
        except InvalidCatalog as error:
            for violation in error.violations:
                location = f"{violation.entity}.{violation.property}" if violation.property else violation.entity
                self.add_failure(topic, f"{location}: {violation.problem}", exit_code(error), violation.remedy)
        except ShardQLError as error:
            for line in error.message.splitlines():
                self.add_failure(topic, line, exit_code(error))
