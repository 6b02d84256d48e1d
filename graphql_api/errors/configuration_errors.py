"""Errors of the declared catalog and of the server's settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphql_api.errors.base_error import ShardQLError


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of a catalog: where it is and how to fix it."""

    entity: str
    property: str | None
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.entity}.{self.property}" if self.property else self.entity
        return f"{where}: {self.problem} {self.remedy}"


class InvalidCatalog(ShardQLError, code="INVALID_CATALOG", status=500):
    """The declared entities break one or more rules; the error lists all of them."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        lines = "\n".join(f"  - {violation}" for violation in self.violations)
        count = len(self.violations)
        super().__init__(f"The catalog has {count} problem{'s' if count != 1 else ''}:\n{lines}")


class UnknownEntity(ShardQLError, code="UNKNOWN_ENTITY"):
    """The catalog declares no such entity."""


class UnknownIndex(ShardQLError, code="UNKNOWN_INDEX"):
    """The entity declares no such index."""


class InvalidSettings(ShardQLError, code="INVALID_SETTINGS", status=500):
    """The server cannot start with a setting; the error lists all such settings."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
