"""Access rules of entities, indexes and properties. Access is granted if any rule of a list holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Anyone:
    """Any caller, authenticated or anonymous."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Authenticated principals."""


@dataclass(frozen=True, slots=True)
class Group:
    """Members of at least one of these groups."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """Allow the principal whose subject is the value of a property of the record: `allow=[owner("user_id")]`."""

    property: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerThrough:
    """Allow the owner in a record of `entity`: `owner_through("Ownership", of="order_id", owner="user_id")`.

    The value of the property `of` is the id of the ownership record. If `owner` is its sub id, a record with that id
    and the caller's subject must exist. Otherwise the value of its property `owner` must be the caller's subject.
    """

    entity: str = field(kw_only=False)
    of: str
    owner: str


Rule = Anyone | SignedIn | Group | Owner | OwnerThrough
Rules = tuple[Rule, ...]

anyone = Anyone()
signed_in = SignedIn()
owner = Owner
owner_through = OwnerThrough


def group(*names: str) -> Group:
    """Allow members of these groups: `allow=[group("Admin")]`."""
    return Group(names)


RulesArgument = Rule | Sequence[Rule] | None
"""value of an `allow=` argument: one rule, several rules, or None for no restriction"""


@dataclass(frozen=True, slots=True)
class PropertyRules:
    """The rules of a property: `salary: Annotated[int, allow(group("Payroll"))]`."""

    rules: Rules


def allow(*rules: Rule) -> PropertyRules:
    """Restrict reads of a property to callers for whom one of the rules holds."""
    return PropertyRules(rules)


def normalize_rules(argument: RulesArgument) -> Rules | None:
    """Convert an `allow=` argument to a tuple of rules. None stays None."""
    if argument is None:
        return None
    one_or_several: Any = argument  # Report a string as one invalid rule, not as one per character.
    is_one = isinstance(one_or_several, str) or not isinstance(one_or_several, Sequence)
    return (one_or_several,) if is_one else tuple(one_or_several)


def allows_anyone(rules: Rules | None) -> bool:
    """Whether the rules admit any caller, authenticated or anonymous."""
    return rules is None or Anyone() in rules


def depends_on_record(rules: Rules | None) -> bool:
    """Whether the rules can be checked only with the record itself."""
    return any(isinstance(rule, Owner | OwnerThrough) for rule in rules or ())
