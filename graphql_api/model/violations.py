"""Violations of catalog rules, and helpers of rules."""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from graphql_api.errors import nearest

N = TypeVar("N", bound=Hashable)
T = TypeVar("T")

Violations = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property, index, join or constraint, or None for the entity; then problem and remedy"""

Problems = Iterator[tuple[str, str]]
"""violations of one declaration: problem, then remedy"""

LETTERS_AND_DIGITS = "Use ASCII letters and digits, a letter first."
"""remedy for a name that GraphQL does not allow"""


def duplicates(named: Iterable[tuple[N, T]]) -> Iterator[tuple[N, T, T]]:
    """Yield each name that occurred before, with its value and the value of the first occurrence."""
    first: dict[N, T] = {}
    for name, value in named:
        if name in first:
            yield name, value, first[name]
        first.setdefault(name, value)


def nearest_or_all(wrong: str, known: Iterable[str], kind: str) -> str:
    """Return the closest known name as a remedy, or all of them. `kind` is what they name, in the plural."""
    names = list(known)
    return nearest(wrong, names).strip() or f"Its {kind} are {', '.join(names)}."
