"""Names: how Python's become those of records, hash keys and GraphQL. They are part of the stored format."""

import re

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""what an entity or a property may be called outside of Python"""

_ACRONYM = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+")


def camel_case(name: str) -> str:
    """`first_name` → `firstName`; a trailing underscore (`class_`) is only there for Python and falls away."""
    first, *rest = [part for part in name.split("_") if part] or [name]
    return first + "".join(map(capitalized, rest))


def capitalized(name: str) -> str:
    """`beneficiaryId` → `BeneficiaryId`."""
    return name[:1].upper() + name[1:]


def entity_name(class_name: str) -> str:
    """`OrderTracking` → `orderTracking`, `SKUPrice` → `skuPrice`."""
    return _ACRONYM.sub(lambda found: found.group().lower(), class_name, count=1)


def without_id(name: str) -> str:
    """`beneficiaryId` → `beneficiary`: an index speaks of the thing, not of its id."""
    return name.removesuffix("Id") or name
