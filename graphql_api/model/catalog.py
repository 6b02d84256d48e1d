"""A catalog: the entities of one table, validated together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import overload

from graphql_api.errors import InvalidCatalog, UnknownEntity, UnknownIndex, Violation, nearest
from graphql_api.model.entity import Entity
from graphql_api.model.markers import IndexRef
from graphql_api.model.physical_table import table_definition
from graphql_api.model.spec_builders.constraint_specs import with_constraints
from graphql_api.model.spec_builders.entity_specs import build_entity_spec
from graphql_api.model.spec_builders.join_specs import with_joins
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.model.validation.entity_validation import catalog_violations
from graphql_api.storage import TableDefinition


class Catalog:
    """Entities that share a table. An invalid catalog raises `InvalidCatalog`, which lists all violations.

    `namespace` is the prefix of every GraphQL name: `Plugin_OrderTracking`.
    """

    def __init__(self, *entities: type[Entity], namespace: str | None = None) -> None:
        violations = [_not_an_entity(argument) for argument in entities if not _is_entity(argument)]
        models = [argument for argument in entities if _is_entity(argument)]
        by_class_name = {model.__name__: model for model in models}
        unlinked_specs = [build_entity_spec(model, by_class_name, violations) for model in models]
        specs = with_constraints(with_joins(unlinked_specs, violations), unlinked_specs, violations)
        violations.extend(catalog_violations(specs, namespace))
        if violations:
            raise InvalidCatalog(violations)
        self.namespace = namespace
        self.entities: Mapping[str, EntitySpec] = MappingProxyType({spec.name: spec for spec in specs})
        """by their name in hash keys"""
        self._table = table_definition(specs)

    def entity(self, wanted: type[Entity] | str) -> EntitySpec:
        """Return an entity by its class, its class name or its name in hash keys."""
        for spec in self.entities.values():
            if wanted in (spec.model, spec.type_name, spec.name):
                return spec
        name = wanted if isinstance(wanted, str) else wanted.__name__
        known = [spec.type_name for spec in self.entities.values()]
        hint = nearest(name, known) or f" It declares {', '.join(known)}."
        raise UnknownEntity(f"The catalog declares no entity {name!r}.{hint}", argument="entity")

    @overload
    def index(self, of: IndexRef) -> IndexSpec: ...

    @overload
    def index(self, of: EntitySpec | type[Entity] | str, attribute: str) -> IndexSpec: ...

    def index(self, of: IndexRef | EntitySpec | type[Entity] | str, attribute: str = "by_id") -> IndexSpec:
        """Return an index by a reference such as `User.by_first_name`, or by entity and attribute."""
        if isinstance(of, IndexRef):
            attribute = of.attribute
            of = of.entity
        spec = of if isinstance(of, EntitySpec) else self.entity(of)
        index = spec.indexes.get(attribute)
        if index is None:
            hint = nearest(attribute, spec.indexes) or f" It declares {', '.join(spec.indexes)}."
            raise UnknownIndex(f"{spec.type_name} declares no index {attribute!r}.{hint}", argument="index")
        return index

    def table_definition(self) -> TableDefinition:
        """Return the definition of the table that these entities need."""
        return self._table


def _is_entity(argument: object) -> bool:
    return isinstance(argument, type) and issubclass(argument, Entity) and argument is not Entity


def _not_an_entity(argument: object) -> Violation:
    return Violation("Catalog", None, f"received {argument!r}, which is no entity.", "Pass subclasses of Entity.")
