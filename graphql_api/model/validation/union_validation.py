"""Validate unions of indexes."""

from collections.abc import Iterator

from graphql_api.model.naming import NAME_PATTERN
from graphql_api.model.specs import EntitySpec, IndexSpec, UnionSpec

Problems = Iterator[tuple[str, str]]
"""violations of one union: problem, remedy"""

_ALIGN_REMEDY = "Search them by two fields, or declare the indexes alike."


def union_violations(spec: EntitySpec) -> Iterator[tuple[str | None, str, str]]:
    """Yield the violations of the unions of one entity."""
    indexes_by_name = {index.name: index.attribute for index in spec.indexes.values()}
    for union in spec.unions.values():
        for problem, remedy in (
            *_name_problems(union, indexes_by_name),
            *_member_problems(union),
            *_alignment_problems(union),
            *_deduplication_problems(union),
        ):
            yield union.attribute, problem, remedy


def _name_problems(union: UnionSpec, indexes_by_name: dict[str, str]) -> Problems:
    if not union.attribute.startswith("by_") or not NAME_PATTERN.fullmatch(union.name):
        yield (
            "is a union, and its name does not start with by_ and a letter.",
            f"Call it by_{union.attribute.lstrip('_')}.",
        )
    if union.name in indexes_by_name:
        yield (
            f"is called {union.name!r} in GraphQL, as {indexes_by_name[union.name]} is.",
            "Give one of them another name.",
        )


def _member_problems(union: UnionSpec) -> Problems:
    names = [index.attribute for index in union.members]
    if len(names) < 2:
        yield "is a union of fewer than two indexes.", "Name the indexes that it searches, in order."
    if len(set(names)) < len(names):
        yield "names an index twice.", "Name each index once."


def _alignment_problems(union: UnionSpec) -> Problems:
    """Check that one search fits all members: the same hash properties, shards and type of the first sort property."""
    if not union.members:
        return
    first, *others = union.members
    for other in others:
        members = f"{first.attribute} and {other.attribute}"
        if [part.name for part in other.hash] != [part.name for part in first.hash]:
            yield f"joins {members}, which are hashed by different properties.", _ALIGN_REMEDY
        elif _sharding(other) != _sharding(first):
            yield f"joins {members}, which are sharded differently.", _ALIGN_REMEDY
        elif _first_sort_codec(other) != _first_sort_codec(first):
            yield f"joins {members}, whose first sort properties have different types.", _ALIGN_REMEDY


def _sharding(index: IndexSpec) -> tuple[object, ...]:
    return index.hash_entity, index.space, index.sharded_like_parent


def _first_sort_codec(index: IndexSpec) -> object:
    return index.sort[0].property.codec if index.sort else None


def _deduplication_problems(union: UnionSpec) -> Problems:
    """Check that later members carry the keys of earlier ones, by which records are recognized as duplicates."""
    for index in union.members[1:]:
        if index.projection != "ALL":
            yield (
                f"has {index.attribute} after other indexes, and its entries do not carry their keys.",
                'Set projection="ALL", or name it first.',
            )
