"""What a catalog may do and seldom should: rules refuse, this advises. Some of it shows in records alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.specs import EntitySpec, IndexSpec, PropertySpec
from graphql_api.errors import Violation
from graphql_api.keys import scalars

FEWEST_HASH_KEYS = 10
"""over which the entries of an index should be able to spread"""

LONGEST_NUMBER = 10
"""digits: longer texts are rather phone numbers and the like, of which nobody expects an order by value"""


def advice(catalog: Catalog, records: Mapping[str, Sequence[Entity]]) -> Iterator[Violation]:
    """What stands out in a catalog and in some records of its entities, by their names in hash keys."""
    for spec in catalog.entities.values():
        for index in spec.indexes.values():
            yield from _hot(spec, index)
        yield from _unpadded(spec, records.get(spec.name, ()))


def _hot(spec: EntitySpec, index: IndexSpec) -> Iterator[Violation]:
    """All entries with the same hash key share what one partition can take."""
    choices = [_choices(part) for part in index.hash]
    counted = [count for count in choices if count is not None]
    if not counted or len(counted) < len(choices):
        return
    shards = max(generation.size for generation in index.space.generations)
    hash_keys = prod(counted) * shards
    if hash_keys < FEWEST_HASH_KEYS:
        names = " and ".join(part.name for part in index.hash)
        over = "one shard" if shards == 1 else f"{shards} shards"
        keys = f"{hash_keys} hash key{'s' if hash_keys > 1 else ''}"
        yield Violation(
            spec.type_name,
            index.attribute,
            f"is hashed by {names}, of {prod(counted)} values, over {over}: all its entries lie under {keys}.",
            "Give it more shards, or hash by another property too.",
        )


def _choices(part: PropertySpec) -> int | None:
    """How many values a property can have, where they are few."""
    if isinstance(part.codec, scalars.EnumCodec):
        return len(part.codec.enum_class)
    return 2 if isinstance(part.codec, scalars.Boolean) else None


def _unpadded(spec: EntitySpec, records: Iterable[Entity]) -> Iterator[Violation]:
    """Texts that are numbers come in the order of texts: 10 before 9."""
    ordered = {part.name: part for index in spec.indexes.values() for part in index.range_parts}
    texts = [name for name, part in ordered.items() if isinstance(part.codec, scalars.Text)]
    values: dict[str, set[str]] = {name: set() for name in texts}
    for record in records:
        for name in texts:
            value = getattr(record, name)
            if value is not None:
                values[name].add(value)
    for name, found in values.items():
        if found and all(map(_is_number, found)):
            wrong = next(((a, b) for a, b in pairwise(sorted(found)) if int(a) > int(b)), None)
            if wrong is not None:
                yield Violation(
                    spec.type_name,
                    name,
                    f"is a text and holds numbers: {wrong[0]!r} comes before {wrong[1]!r}.",
                    "Make it an int, or pad its numbers with zeros to one width.",
                )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
