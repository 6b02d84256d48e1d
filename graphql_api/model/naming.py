"""Convert Python names to names in records, hash keys and GraphQL. The results are part of the stored format."""

import re
from functools import lru_cache

NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""valid names of entities and properties in records, keys and GraphQL"""

MAX_NAME_LENGTH = 255
"""of entities and attributes in the table"""

HASH_ATTRIBUTE = "hashKey"
RANGE_ATTRIBUTE = "rangeKey"
TABLE_KEYS = (HASH_ATTRIBUTE, RANGE_ATTRIBUTE)
"""the table's own key attributes"""

_VERSION = "@"
"""between the name of an entity and the version of its records"""
OWNER = "_owner"
"""attribute of constraint items and mapping items: hash key and range key of the record that they belong to"""

_ACRONYM = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+")


def is_attribute_name(name: str) -> bool:
    """Return whether an entity or attribute of the table may have the name."""
    return len(name) <= MAX_NAME_LENGTH and NAME_PATTERN.fullmatch(name) is not None


@lru_cache(maxsize=4_096)
def camel_case(name: str) -> str:
    """Convert `first_name` to `firstName`. A trailing underscore (`class_`) is dropped."""
    first, *rest = [part for part in name.split("_") if part] or [name]
    return first + "".join(map(capitalized, rest))


def capitalized(name: str) -> str:
    """Convert `beneficiaryId` to `BeneficiaryId`."""
    return name[:1].upper() + name[1:]


def entity_name(class_name: str) -> str:
    """Convert `OrderTracking` to `orderTracking`, and `SKUPrice` to `skuPrice`."""
    return _ACRONYM.sub(lambda match: match.group().lower(), class_name, count=1)


def strip_id_suffix(name: str) -> str:
    """Convert `beneficiaryId` to `beneficiary`, as in names of index attributes."""
    return name.removesuffix("Id") or name


def versioned_name(entity: str, version: int) -> str:
    """Return the name of a version of an entity in the table: `account@2`, and `account` for the first one."""
    return entity if version == 1 else f"{entity}{_VERSION}{version}"


def entity_and_version(name: str) -> tuple[str, int]:
    """Return the declared name and the version in the name of an entity in the table."""
    declared, _, version = name.partition(_VERSION)
    return declared, int(version) if version.isdecimal() else 1
