"""Who may read what: rules of entities, indexes and properties, any one of which is enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Anyone:
    """Everybody, known or not."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whoever the server knows."""


@dataclass(frozen=True, slots=True)
class Group:
    """Members of one of these groups."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whoever is named by a property of the record."""

    property: str


@dataclass(frozen=True, slots=True)
class OwnerThrough:
    """Whoever a record of another entity names as the owner of what this record's property says.

    That record is found by the property's value as its id. Where `owner` is its sub id, a record under the value and
    the caller must exist; else the record's `owner` must be the caller.
    """

    entity: str
    of: str
    owner: str


Rule = Anyone | SignedIn | Group | Owner | OwnerThrough
Rules = tuple[Rule, ...]

anyone = Anyone()
signed_in = SignedIn()


def group(*names: str) -> Group:
    """Members of one of these groups: `allow=[group("Admin")]`."""
    return Group(names)


def owner(property: str) -> Owner:
    """Whoever the property of the record names: `allow=[owner("user_id")]`."""
    return Owner(property)


def owner_through(entity: str, *, of: str, owner: str) -> OwnerThrough:
    """Whoever a record of `entity` names as owner: `owner_through("Ownership", of="order_id", owner="user_id")`."""
    return OwnerThrough(entity, of, owner)


Allow = Rule | Sequence[Rule] | None
"""how rules are given: one, several, or none at all, which leaves it open"""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rules of a property: `salary: Annotated[int, allow(group("Payroll"))]`."""

    rules: Rules


def allow(*rules: Rule) -> Allowed:
    """Lets a property be read by those for whom one of the rules holds."""
    return Allowed(rules)


def rules_of(given: Allow) -> Rules | None:
    """Rules in one form; None where nothing was said."""
    if given is None:
        return None
    one_or_several: Any = given  # A text is one mistake, and not one for each letter.
    is_one = isinstance(one_or_several, str) or not isinstance(one_or_several, Sequence)
    return (one_or_several,) if is_one else tuple(one_or_several)


def is_open(rules: Rules | None) -> bool:
    """Whether everybody is let in, known or not."""
    return rules is None or Anyone() in rules


def depends_on_record(rules: Rules | None) -> bool:
    """Whether it may take a record to tell whether somebody may read it."""
    return any(isinstance(rule, Owner | OwnerThrough) for rule in rules or ())
