"""Build the specification of an entity from its class.

Violations that a specification cannot express are reported here, all others by `model.validation`.
The specification of an invalid class serves only to find further violations.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pydantic.fields import FieldInfo

from graphql_api.errors import Violation, nearest
from graphql_api.model.access_declarations import PropertyRules
from graphql_api.model.annotations import Annotation, parse_annotation
from graphql_api.model.constraint_declarations import Counted, UniqueTogether
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Index, Role, Stored, Union
from graphql_api.model.naming import camel_case, capitalized, strip_id_suffix
from graphql_api.model.shard_declarations import CREATION_CODECS, shard_problems, shard_space_of
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec, SortProperty, UnionSpec, UniqueSpec
from graphql_api.sharding import ONE_SHARD, ShardSpace
from graphql_api.storage import Projection

HASH_ATTRIBUTE = "hashKey"
RANGE_ATTRIBUTE = "rangeKey"
"""the table's own key attributes"""


def build_entity_spec(
    model: type[Entity], models: Mapping[str, type[Entity]], violations: list[Violation]
) -> EntitySpec:
    """Build the specification of an entity. `models` are all entities of the catalog by class name."""
    return _EntitySpecBuilder(model, models, violations).build()


class _EntitySpecBuilder:
    """Build one specification, with state that is shared by its parts."""

    def __init__(self, model: type[Entity], models: Mapping[str, type[Entity]], violations: list[Violation]) -> None:
        self.model = model
        self.models = models
        self.violations = violations
        self.declaration = model.__declaration__
        model.model_rebuild(raise_errors=False)
        self.annotations = {
            name: parse_annotation(field.annotation, field.metadata) for name, field in model.model_fields.items()
        }
        self.properties = {name: self._property_spec(name) for name in model.model_fields}

    def build(self) -> EntitySpec:
        if not self.model.__pydantic_fields_complete__:
            self._report(None, "has annotations that Python cannot resolve.", "Import the types in its module.")
        ids, sub_ids = self._with_role("id"), self._with_role("sub id")
        indexes = {"by_id": self._primary_index_spec(ids, sub_ids)} | {
            attribute: self._index_spec(attribute, index, ids + sub_ids)
            for attribute, index in self.declaration.indexes.items()
        }
        created = self._single(self._with_role("created"), "Created")
        return EntitySpec(
            name=self.declaration.name,
            type_name=self.model.__name__,
            model=self.model,
            description=inspect.cleandoc(self.model.__doc__) if self.model.__doc__ else None,
            properties=MappingProxyType(self.properties),
            ids=ids,
            sub_ids=sub_ids,
            created=created,
            space=self._shard_space(created),
            indexes=MappingProxyType(indexes),
            unions=MappingProxyType(
                {
                    attribute: _union_spec(attribute, union, indexes)
                    for attribute, union in self.declaration.unions.items()
                }
            ),
            separator=self.declaration.separator,
            ttl=self._single(self._with_role("ttl"), "Ttl"),
            allow=self.declaration.allow,
            current=self.declaration.current,
            write=self.declaration.write,
            updated=self._single(self._with_role("updated"), "Updated"),
            version=self._single(self._with_role("version"), "Version"),
            unique=tuple(self._unique_specs(ids)),
        )

    # --- properties --------------------------------------------------------------------------------------------

    def _property_spec(self, name: str) -> PropertySpec:
        field, annotation = self.model.model_fields[name], self.annotations[name]
        self._report_annotation(name, annotation)
        rule = self.declaration.derived.get(name)
        allowed = [marker.rules for marker in annotation.markers if isinstance(marker, PropertyRules)]
        stored_names = [marker.name for marker in annotation.markers if isinstance(marker, Stored)]
        return PropertySpec(
            name=name,
            stored=stored_names[-1] if stored_names else camel_case(name),
            codec=annotation.codec,
            nullable=annotation.nullable,
            description=field.description,
            function=rule.function if rule else None,
            sources=rule.sources if rule else (),
            null_is_stored=annotation.nullable and not rule and _defaults_to_a_value(field),
            allow=allowed[-1] if allowed else None,
            immutable=Role("immutable") in annotation.markers,
            counter_group=field.default_factory.group if isinstance(field.default_factory, Counted) else None,
        )

    def _report_annotation(self, name: str, annotation: Annotation) -> None:
        if annotation.invalid_enum:
            enum_class, problem = annotation.invalid_enum
            self._report(
                name,
                f"is of {enum_class.__name__}, which {problem}",
                "An enum needs 1 to 1,000 members with distinct values of type str or int.",
            )

    def _with_role(self, role: str) -> tuple[PropertySpec, ...]:
        return tuple(
            self.properties[name]
            for name, annotation in self.annotations.items()
            if any(isinstance(marker, Role) and marker.name == role for marker in annotation.markers)
        )

    def _single(self, marked: tuple[PropertySpec, ...], marker: str) -> PropertySpec | None:
        for duplicate in marked[1:]:
            self._report(duplicate.name, f"is a second {marker}.", f"Mark only one property with {marker}.")
        return marked[0] if marked else None

    def _unique_specs(self, ids: tuple[PropertySpec, ...]) -> Iterator[UniqueSpec]:
        """Yield the unique constraints of properties and of the class. An id is unique without a constraint."""
        for part in self._with_role("unique"):
            if (part,) != ids:
                yield UniqueSpec(part.stored, part.name, (part,))
        for attribute, constraint in self.declaration.constraints.items():
            if isinstance(constraint, UniqueTogether):
                parts = tuple(self.properties[name] for name in constraint.properties)
                yield UniqueSpec(camel_case(attribute), attribute, parts)

    # --- shards ------------------------------------------------------------------------------------------------

    def _shard_space(self, created: PropertySpec | None) -> ShardSpace:
        """Return the entity's shard space, and report its violations."""
        shards = self.declaration.shards
        codec = created.codec if created and isinstance(created.codec, CREATION_CODECS) else None
        if created and codec is None:
            self._report(
                created.name,
                "is Created, and its type cannot determine a shard generation.",
                "Make it a Timestamp, TimestampMs, datetime, date, int or str.",
            )
        for problem, remedy in shard_problems(shards, codec):
            self._report(None, problem, remedy)
        return shard_space_of(self.model)

    # --- indexes -----------------------------------------------------------------------------------------------

    def _primary_index_spec(self, ids: tuple[PropertySpec, ...], sub_ids: tuple[PropertySpec, ...]) -> IndexSpec:
        return IndexSpec(
            entity=self.declaration.name,
            attribute="by_id",
            name="id",
            physical=None,
            hash_attribute=HASH_ATTRIBUTE,
            range_attribute=RANGE_ATTRIBUTE,
            hash_entity=self.declaration.name,
            space=shard_space_of(self.model),
            sharded_like_parent=False,
            hash=(),
            id_prefix=ids if sub_ids else (),
            sort=tuple(map(SortProperty, sub_ids or ids)),
            tie_breaker=(),
            raw=False,
        )

    def _index_spec(self, attribute: str, index: Index, primary: tuple[PropertySpec, ...]) -> IndexSpec:
        name = camel_case(attribute.removeprefix("by_"))
        physical = index.slot or index.name or name
        sort = tuple(SortProperty(self.properties[name], descending) for name, descending in index.sort)
        hash_properties = tuple(self.properties[name] for name in index.hash)
        hash_entity, space = self._hash_entity_and_space(attribute, index)
        sorted_by = {part.property.name for part in sort}
        return IndexSpec(
            entity=self.declaration.name,
            attribute=attribute,
            name=name,
            physical=physical,
            hash_attribute=index.hash_key or self._hash_attribute(index, hash_properties, hash_entity),
            range_attribute=self._range_attribute(index, physical, sort),
            hash_entity=hash_entity,
            space=space,
            sharded_like_parent=isinstance(index.sharded, str),
            hash=hash_properties,
            id_prefix=(),
            sort=sort,
            tie_breaker=() if index.raw else tuple(part for part in primary if part.name not in sorted_by),
            raw=index.raw,
            projection=self._projection(index),
            allow=index.allow,
        )

    def _hash_entity_and_space(self, attribute: str, index: Index) -> tuple[str, ShardSpace]:
        """Return the entity whose name begins the hash key, and the shard space of the index."""
        if not isinstance(index.sharded, str):
            return self.declaration.name, shard_space_of(self.model) if index.sharded else ONE_SHARD
        parent = self.models.get(index.sharded)
        if parent is None:
            hint = nearest(index.sharded, self.models).strip()
            self._report(
                attribute,
                f"is sharded like {index.sharded!r}, which is no entity of this catalog.",
                hint or f"Its entities are {', '.join(self.models)}.",
            )
            return index.sharded, ONE_SHARD
        return parent.__declaration__.name, shard_space_of(parent)

    def _hash_attribute(self, index: Index, hash_properties: Iterable[PropertySpec], hash_entity: str) -> str:
        if index.slot:
            return f"{index.slot}HashKey"
        if isinstance(index.sharded, str):
            return f"{hash_entity}HashKey"
        if not index.hash and index.sharded:
            return HASH_ATTRIBUTE
        parts = "".join(capitalized(strip_id_suffix(part.stored)) for part in hash_properties)
        return f"{self.declaration.name}{parts}{'' if index.sharded else 'Unsharded'}HashKey"

    def _range_attribute(self, index: Index, physical: str, sort: tuple[SortProperty, ...]) -> str:
        if index.raw and sort:
            return sort[0].property.stored
        return index.range_key or f"{physical}RangeKey"

    def _projection(self, index: Index) -> Projection:
        if isinstance(index.projection, tuple):
            return tuple(sorted({self.properties[name].stored for name in index.projection}))
        return "KEYS_ONLY" if index.projection == "KEYS_ONLY" else "ALL"

    def _report(self, attribute: str | None, problem: str, remedy: str) -> None:
        self.violations.append(Violation(self.model.__name__, attribute, problem, remedy))


def _defaults_to_a_value(field: FieldInfo) -> bool:
    return not field.is_required() and (field.default_factory is not None or field.default is not None)


def _union_spec(attribute: str, union: Union, indexes: Mapping[str, IndexSpec]) -> UnionSpec:
    return UnionSpec(
        attribute,
        camel_case(attribute.removeprefix("by_")),
        tuple(indexes[name] for name in union.members),
        union.allow,
    )
