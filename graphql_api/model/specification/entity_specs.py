"""Reads an entity's class into its frozen specification.

What a specification cannot express is reported here, the rest by `rules`; the specification of a class with problems
is good for finding more of them and for nothing else.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pydantic.fields import FieldInfo

from graphql_api.errors import Violation, nearest
from graphql_api.model.access_declarations import Allowed
from graphql_api.model.annotations import Annotation, read_annotation
from graphql_api.model.constraint_declarations import Counted, UniqueTogether
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Index, Role, Stored, Union
from graphql_api.model.naming import camel_case, capitalized, without_id
from graphql_api.model.shard_declarations import CREATION_CODECS, own_space, shard_problems
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec, SortProperty, UnionSpec, UniqueSpec
from graphql_api.sharding import ONE_SHARD, ShardSpace
from graphql_api.storage import Projection

HASH_ATTRIBUTE = "hashKey"
RANGE_ATTRIBUTE = "rangeKey"
"""the table's own key attributes"""


def read_entity(model: type[Entity], others: Mapping[str, type[Entity]], problems: list[Violation]) -> EntitySpec:
    """The specification of an entity; `others` are all entities of the catalog by class name."""
    return _Reader(model, others, problems).entity()


class _Reader:
    """Reads one class; keeps what its parts need of one another."""

    def __init__(self, model: type[Entity], others: Mapping[str, type[Entity]], problems: list[Violation]) -> None:
        self.model = model
        self.others = others
        self.problems = problems
        self.declared = model.__declaration__
        model.model_rebuild(raise_errors=False)
        self.annotations = {
            name: read_annotation(field.annotation, field.metadata) for name, field in model.model_fields.items()
        }
        self.properties = {name: self._property(name) for name in model.model_fields}

    def entity(self) -> EntitySpec:
        if not self.model.__pydantic_fields_complete__:
            self._report(None, "has annotations that Python cannot resolve.", "Import the types that they name.")
        ids, sub_ids = self._with_role("id"), self._with_role("sub id")
        indexes = {"by_id": self._primary(ids, sub_ids)} | {
            attribute: self._index(attribute, index, ids + sub_ids)
            for attribute, index in self.declared.indexes.items()
        }
        created = self._only(self._with_role("created"), "Created")
        return EntitySpec(
            name=self.declared.name,
            type_name=self.model.__name__,
            model=self.model,
            description=inspect.cleandoc(self.model.__doc__) if self.model.__doc__ else None,
            properties=MappingProxyType(self.properties),
            ids=ids,
            sub_ids=sub_ids,
            created=created,
            space=self._space(created),
            indexes=MappingProxyType(indexes),
            unions=MappingProxyType(
                {attribute: _union(attribute, union, indexes) for attribute, union in self.declared.unions.items()}
            ),
            separator=self.declared.separator,
            ttl=self._only(self._with_role("ttl"), "Ttl"),
            allow=self.declared.allow,
            current=self.declared.current,
            write=self.declared.write,
            updated=self._only(self._with_role("updated"), "Updated"),
            version=self._only(self._with_role("version"), "Version"),
            unique=tuple(self._unique(ids)),
        )

    # --- properties --------------------------------------------------------------------------------------------

    def _property(self, name: str) -> PropertySpec:
        field, annotation = self.model.model_fields[name], self.annotations[name]
        self._report_annotation(name, annotation)
        rule = self.declared.derived.get(name)
        allowed = [mark.rules for mark in annotation.marks if isinstance(mark, Allowed)]
        renamed = [mark.name for mark in annotation.marks if isinstance(mark, Stored)]
        return PropertySpec(
            name=name,
            stored=renamed[-1] if renamed else camel_case(name),
            codec=annotation.codec,
            nullable=annotation.nullable,
            description=field.description,
            function=rule.function if rule else None,
            sources=rule.sources if rule else (),
            null_is_stored=annotation.nullable and not rule and _defaults_to_a_value(field),
            allow=allowed[-1] if allowed else None,
            immutable=Role("immutable") in annotation.marks,
            counts=field.default_factory.group if isinstance(field.default_factory, Counted) else None,
        )

    def _report_annotation(self, name: str, annotation: Annotation) -> None:
        if annotation.bad_enum:
            enum_class, problem = annotation.bad_enum
            self._report(
                name,
                f"is of {enum_class.__name__}, which {problem}",
                "Give the enum at most 1,000 members with distinct values, all of them str or int.",
            )

    def _with_role(self, role: str) -> tuple[PropertySpec, ...]:
        return tuple(
            self.properties[name]
            for name, annotation in self.annotations.items()
            if any(isinstance(mark, Role) and mark.name == role for mark in annotation.marks)
        )

    def _only(self, marked: tuple[PropertySpec, ...], marker: str) -> PropertySpec | None:
        for further in marked[1:]:
            self._report(further.name, f"is a second {marker}.", f"Mark one property of an entity with {marker}.")
        return marked[0] if marked else None

    def _unique(self, ids: tuple[PropertySpec, ...]) -> Iterator[UniqueSpec]:
        """What the properties and the class say is unique, but for an id, which is so by itself."""
        for part in self._with_role("unique"):
            if (part,) != ids:
                yield UniqueSpec(part.stored, part.name, (part,))
        for attribute, constraint in self.declared.constraints.items():
            if isinstance(constraint, UniqueTogether):
                parts = tuple(self.properties[name] for name in constraint.properties)
                yield UniqueSpec(camel_case(attribute), attribute, parts)

    # --- shards ------------------------------------------------------------------------------------------------

    def _space(self, created: PropertySpec | None) -> ShardSpace:
        """The own shard space, with everything that is wrong about it reported."""
        shards = self.declared.shards
        usable = created.codec if created and isinstance(created.codec, CREATION_CODECS) else None
        if created and usable is None:
            self._report(
                created.name,
                "is a creation property of a type that decides no generation.",
                "Make it a Timestamp, TimestampMs, datetime, date, int or str.",
            )
        for problem, remedy in shard_problems(shards, usable):
            self._report(None, problem, remedy)
        return own_space(self.model)

    # --- indexes -----------------------------------------------------------------------------------------------

    def _primary(self, ids: tuple[PropertySpec, ...], sub_ids: tuple[PropertySpec, ...]) -> IndexSpec:
        return IndexSpec(
            entity=self.declared.name,
            attribute="by_id",
            name="id",
            physical=None,
            hash_attribute=HASH_ATTRIBUTE,
            range_attribute=RANGE_ATTRIBUTE,
            head=self.declared.name,
            space=own_space(self.model),
            like_parent=False,
            hash=(),
            lead=ids if sub_ids else (),
            sort=tuple(map(SortProperty, sub_ids or ids)),
            tail=(),
            raw=False,
        )

    def _index(self, attribute: str, index: Index, primary: tuple[PropertySpec, ...]) -> IndexSpec:
        name = camel_case(attribute.removeprefix("by_"))
        physical = index.slot or index.name or name
        sort = tuple(SortProperty(self.properties[name], descending) for name, descending in index.sort)
        hash_properties = tuple(self.properties[name] for name in index.hash)
        head, space = self._head(attribute, index)
        sorted_by = {part.property.name for part in sort}
        return IndexSpec(
            entity=self.declared.name,
            attribute=attribute,
            name=name,
            physical=physical,
            hash_attribute=index.hash_key or self._hash_attribute(index, hash_properties, head),
            range_attribute=self._range_attribute(index, physical, sort),
            head=head,
            space=space,
            like_parent=isinstance(index.sharded, str),
            hash=hash_properties,
            lead=(),
            sort=sort,
            tail=() if index.raw else tuple(part for part in primary if part.name not in sorted_by),
            raw=index.raw,
            projection=self._projection(index),
            allow=index.allow,
        )

    def _head(self, attribute: str, index: Index) -> tuple[str, ShardSpace]:
        """Whose name the hash key begins with, and over which shards."""
        if not isinstance(index.sharded, str):
            return self.declared.name, own_space(self.model) if index.sharded else ONE_SHARD
        parent = self.others.get(index.sharded)
        if parent is None:
            hint = nearest(index.sharded, self.others).strip()
            self._report(
                attribute,
                f"is sharded like {index.sharded!r}, which is no entity of this catalog.",
                hint or f"Its entities are {', '.join(self.others)}.",
            )
            return index.sharded, ONE_SHARD
        return parent.__declaration__.name, own_space(parent)

    def _hash_attribute(self, index: Index, hash_properties: Iterable[PropertySpec], head: str) -> str:
        if index.slot:
            return f"{index.slot}HashKey"
        if isinstance(index.sharded, str):
            return f"{head}HashKey"
        if not index.hash and index.sharded:
            return HASH_ATTRIBUTE
        parts = "".join(capitalized(without_id(part.stored)) for part in hash_properties)
        return f"{self.declared.name}{parts}{'' if index.sharded else 'Unsharded'}HashKey"

    def _range_attribute(self, index: Index, physical: str, sort: tuple[SortProperty, ...]) -> str:
        if index.raw and sort:
            return sort[0].property.stored
        return index.range_key or f"{physical}RangeKey"

    def _projection(self, index: Index) -> Projection:
        if isinstance(index.projection, tuple):
            return tuple(sorted({self.properties[name].stored for name in index.projection}))
        return "KEYS_ONLY" if index.projection == "KEYS_ONLY" else "ALL"

    def _report(self, place: str | None, problem: str, remedy: str) -> None:
        self.problems.append(Violation(self.model.__name__, place, problem, remedy))


def _defaults_to_a_value(field: FieldInfo) -> bool:
    return not field.is_required() and (field.default_factory is not None or field.default is not None)


def _union(attribute: str, union: Union, indexes: Mapping[str, IndexSpec]) -> UnionSpec:
    return UnionSpec(
        attribute,
        camel_case(attribute.removeprefix("by_")),
        tuple(indexes[name] for name in union.members),
        union.allow,
    )
