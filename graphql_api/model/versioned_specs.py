"""Versions of an entity's records: each has a name of its own in the table, and so its own keys.

The first version of `account` has this name in hash keys, the second one `account@2`. A catalog declares a version, the
table's record says which one servers read and write, and specifications have its name.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from graphql_api.model.specs import EntitySpec, IndexSpec, JoinSpec


def with_versions(entities: Mapping[str, EntitySpec], names: Mapping[str, str]) -> dict[str, EntitySpec]:
    """Return entities under other names in the table, wherever a specification refers to them."""

    def renamed(spec: EntitySpec) -> EntitySpec:
        indexes = {name: _renamed_index(index, names) for name, index in spec.indexes.items()}
        unions = {
            name: replace(union, members=tuple(indexes[member.attribute] for member in union.members))
            for name, union in spec.unions.items()
        }
        return replace(
            spec,
            name=names.get(spec.name, spec.name),
            indexes=MappingProxyType(indexes),
            unions=MappingProxyType(unions),
            joins=MappingProxyType({name: _renamed_join(join, names) for name, join in spec.joins.items()}),
            foreign_keys=tuple(replace(key, parent=renamed(key.parent)) for key in spec.foreign_keys),
            children=tuple(map(renamed, spec.children)),
        )

    return {spec.name: spec for spec in map(renamed, entities.values())}


def _renamed_index(index: IndexSpec, names: Mapping[str, str]) -> IndexSpec:
    head, kind, rest = index.hash_entity.partition("~")
    return replace(
        index,
        entity=names.get(index.entity, index.entity),
        hash_entity=f"{names.get(head, head)}{kind}{rest}",
    )


def _renamed_join(join: JoinSpec, names: Mapping[str, str]) -> JoinSpec:
    return replace(join, target=names.get(join.target, join.target))
