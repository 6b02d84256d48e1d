"""A catalog: the entities of one table, checked together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import overload

from graphql_api.errors import InvalidCatalog, UnknownEntity, UnknownIndex, Violation, nearest
from graphql_api.model.entity import Entity
from graphql_api.model.markers import IndexRef
from graphql_api.model.physical_table import table_definition
from graphql_api.model.specification.constraint_specs import bound
from graphql_api.model.specification.entity_specs import read_entity
from graphql_api.model.specification.join_specs import joined
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.model.validation.entity_validation import violations_of
from graphql_api.storage import TableDefinition


class Catalog:
    """Entities that share a table. `InvalidCatalog` lists everything that is wrong with them.

    `namespace` stands in front of every GraphQL name: `Plugin_OrderTracking`.
    """

    def __init__(self, *entities: type[Entity], namespace: str | None = None) -> None:
        problems = [_no_entity(given) for given in entities if not _is_entity(given)]
        models = [given for given in entities if _is_entity(given)]
        by_class_name = {model.__name__: model for model in models}
        read = [read_entity(model, by_class_name, problems) for model in models]
        specs = bound(joined(read, problems), read, problems)
        problems.extend(violations_of(specs, namespace))
        if problems:
            raise InvalidCatalog(problems)
        self.namespace = namespace
        self.entities: Mapping[str, EntitySpec] = MappingProxyType({spec.name: spec for spec in specs})
        """by the name that hash keys begin with"""
        self._table = table_definition(specs)

    def entity(self, wanted: type[Entity] | str) -> EntitySpec:
        """An entity by its class, its class name, or its name in hash keys."""
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
        """The index that a reference such as `User.by_first_name` names, or an entity and the attribute."""
        if isinstance(of, IndexRef):
            attribute = of.attribute
            of = of.entity
        spec = of if isinstance(of, EntitySpec) else self.entity(of)
        found = spec.indexes.get(attribute)
        if found is None:
            hint = nearest(attribute, spec.indexes) or f" It declares {', '.join(spec.indexes)}."
            raise UnknownIndex(f"{spec.type_name} declares no index {attribute!r}.{hint}", argument="index")
        return found

    def table_definition(self) -> TableDefinition:
        """The physical table that these entities need."""
        return self._table


def _is_entity(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, Entity) and given is not Entity


def _no_entity(given: object) -> Violation:
    return Violation("Catalog", None, f"was given {given!r}, which is no entity.", "Pass subclasses of Entity.")
