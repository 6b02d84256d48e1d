"""Find entities that anyone may read or write because no access rule is declared."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphql_api.model.access_declarations import allows_anyone
from graphql_api.model.specs import EntitySpec


@dataclass(frozen=True, slots=True)
class UnrestrictedAccess:
    """Entities that lack the same access rule, as a message and its remedy."""

    description: str
    remedy: str


def find_unrestricted_access(specs: Sequence[EntitySpec], *, is_written: bool = True) -> list[UnrestrictedAccess]:
    """Report missing access rules that leave entities open to anyone. `is_written`: the server offers mutations."""
    without_read_rule = [spec for spec in specs if spec.allow is None]
    without_write_rule = [spec for spec in specs if is_written and spec.write is None and allows_anyone(spec.allow)]
    without_both = [spec for spec in without_read_rule if spec in without_write_rule]
    reports = [
        (
            without_both,
            "read and write",
            "no access rule is declared.",
            "Set allow=, and write= if other callers may write. If anyone may, set allow=anyone.",
        ),
        (
            [spec for spec in without_read_rule if spec not in without_both],
            "read",
            "allow= is not set.",
            "Set allow=, or allow=anyone if that is intended.",
        ),
        (
            [spec for spec in without_write_rule if spec not in without_both],
            "write",
            "allow= allows anyone, and write= is not set.",
            "Set write=, or write=anyone if that is intended.",
        ),
    ]
    return [
        UnrestrictedAccess(f"Anyone who reaches the server can {action} {join_type_names(unruled)}: {reason}", remedy)
        for unruled, action, reason, remedy in reports
        if unruled
    ]


def join_type_names(specs: Sequence[EntitySpec]) -> str:
    """Return the type names of entities, separated by commas."""
    return ", ".join(spec.type_name for spec in specs)
