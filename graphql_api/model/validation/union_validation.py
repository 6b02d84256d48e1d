"""What must hold of indexes that are searched together."""

from collections.abc import Iterator

from graphql_api.model.naming import NAME
from graphql_api.model.specs import EntitySpec, IndexSpec, UnionSpec

Problems = Iterator[tuple[str, str]]
"""violations of one union: problem, remedy"""


def union_violations(spec: EntitySpec) -> Iterator[tuple[str | None, str, str]]:
    """Everything that is wrong with the unions of one entity."""
    names = {index.name: index.attribute for index in spec.indexes.values()}
    for union in spec.unions.values():
        for problem, remedy in (*_named(union, names), *_members(union), *_alike(union), *_told_apart(union)):
            yield union.attribute, problem, remedy


def _named(union: UnionSpec, indexes: dict[str, str]) -> Problems:
    if not union.attribute.startswith("by_") or not NAME.fullmatch(union.name):
        yield (
            "is a union whose name does not begin with by_ and a letter.",
            f"Call it by_{union.attribute.lstrip('_')}.",
        )
    if union.name in indexes:
        yield f"is called {union.name!r} in GraphQL, as {indexes[union.name]} is.", "Give one of them another name."


def _members(union: UnionSpec) -> Problems:
    names = [index.attribute for index in union.members]
    if len(names) < 2:
        yield "is a union of fewer than two indexes.", "Name the indexes that it searches, in order."
    if len(set(names)) < len(names):
        yield "names an index twice.", "Name each once."


def _alike(union: UnionSpec) -> Problems:
    """One search asks all of them: the same hash properties, the same kind of value, the same shards."""
    if not union.members:
        return
    first, *others = union.members
    for other in others:
        if [part.name for part in other.hash] != [part.name for part in first.hash]:
            yield f"joins {first.attribute} and {other.attribute}, which are hashed by different properties.", _APART
        elif (other.head, other.space, other.like_parent) != (first.head, first.space, first.like_parent):
            yield f"joins {first.attribute} and {other.attribute}, which are sharded differently.", _APART
        elif _asked(other) != _asked(first):
            yield (
                f"joins {first.attribute} and {other.attribute}, whose first sort properties are of different kinds.",
                _APART,
            )


_APART = "Search them by two fields, or declare the indexes alike."


def _asked(index: IndexSpec) -> object:
    return index.sort[0].property.codec if index.sort else None


def _told_apart(union: UnionSpec) -> Problems:
    """A record that an earlier index has is known by the keys that it has there: each entry must carry them."""
    for index in union.members[1:]:
        if index.projection != "ALL":
            yield (
                f"has {index.attribute} behind other indexes, and its entries do not carry the keys of those.",
                'Give it projection="ALL", or put it first.',
            )
