"""What an examination has found, check by check."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from graphql_api.cli.exit_codes import FINDINGS, exit_code
from graphql_api.errors import InvalidCatalog, ShardQLError
from graphql_api.server import Listed

Standing: TypeAlias = Literal["fine", "note", "finding", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    about: str
    standing: Standing
    told: str
    remedy: str | None = None


@dataclass(slots=True)
class Examination:
    """Everything that was looked at; the exit code is that of the worst find."""

    checks: list[Check] = field(default_factory=list)
    settings: tuple[Listed, ...] = ()
    code: int = 0

    def fine(self, about: str, told: str) -> None:
        """Says what is well."""
        self.checks.append(Check(about, "fine", told))

    def note(self, about: str, told: str, remedy: str | None = None) -> None:
        """Says what has a price that is worth knowing, and may be meant so."""
        self.checks.append(Check(about, "note", told, remedy))

    def finding(self, about: str, told: str, remedy: str | None = None) -> None:
        """Says what should be otherwise."""
        self.checks.append(Check(about, "finding", told, remedy))
        self.code = max(self.code, FINDINGS)

    def wrong(self, about: str, told: str, code: int, remedy: str | None = None) -> None:
        """Says what cannot work."""
        self.checks.append(Check(about, "wrong", told, remedy))
        self.code = max(self.code, code)

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Whatever fails inside is wrong with this."""
        try:
            yield
        except InvalidCatalog as problem:
            for violation in problem.violations:
                where = f"{violation.entity}.{violation.property}" if violation.property else violation.entity
                self.wrong(what, f"{where}: {violation.problem}", exit_code(problem), violation.remedy)
        except ShardQLError as problem:
            for line in problem.message.splitlines():
                self.wrong(what, line, exit_code(problem))
