"""The GraphQL fields of a catalog that answer NOT_READY while elements of its table are built."""

from collections.abc import Iterator, Sequence

from graphql_api.model import Catalog, EntitySpec, IndexSpec, UnionSpec, camel_case
from graphql_api.schema import GraphQLNames, available_orders, indexes_by_hash, property_name


def refused_queries(catalog: Catalog, names: GraphQLNames) -> list[str]:
    """Return the fields that need an element which is not ready. `catalog`: merged with the table's record."""
    return list(
        dict.fromkeys(field for entity in catalog.entities.values() for field in _fields(catalog, entity, names))
    )


def _fields(catalog: Catalog, entity: EntitySpec, names: GraphQLNames) -> Iterator[str]:
    refused = [index for index in entity.indexes.values() if _is_refused(entity, index)]
    attributes = {index.attribute for index in refused}
    unions = [union for union in entity.unions.values() if attributes & {one.attribute for one in union.members}]
    searches: list[IndexSpec | UnionSpec] = [*refused, *unions]
    yield from (names.search_field(entity, search) for search in searches)
    yield from _list_fields(entity, refused, names)
    attributes |= {union.attribute for union in unions}
    for other in catalog.entities.values():
        for join in other.joins.values():
            if join.target == entity.name and join.via in attributes:
                yield f"{names.type_name(other.type_name)}.{camel_case(join.name)}"
    if entity.recorded is not None and entity.recorded.current is not None:
        served = [index for index in entity.indexes.values() if index not in refused]
        yield from (f"{names.search_field(entity, index)}(history: CURRENT)" for index in served)
    for part in entity.properties.values():
        if part.function is not None and entity.status_of(part.stored) is not None:
            yield f"filters of {names.type_name(entity.type_name)}.{property_name(part.name)}"
    if entity.recorded is not None and entity.recorded.version is not None:
        yield f"expectedVersion of {names.type_name(entity.type_name)}"


def _is_refused(entity: EntitySpec, index: IndexSpec) -> bool:
    """Return whether an index, or a property of its keys, is not ready."""
    keys = (*index.hash, *(part.property for part in index.sort))
    return any(entity.status_of(name) is not None for name in (index.attribute, *(part.stored for part in keys)))


def _list_fields(entity: EntitySpec, refused: Sequence[IndexSpec], names: GraphQLNames) -> Iterator[str]:
    for number, group in enumerate(indexes_by_hash(entity)):
        field = names.list_field(entity, group[0].hash, first=number == 0)
        for order, (index, _) in available_orders(group).items():
            if index in refused:
                yield f"{field}(orderBy: {order})"
