"""`Entity`: the base class of declared entities, a pydantic model with indexes, shards and derived properties."""

import graphlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

from graphql_api.errors import InvalidCatalog, Violation, nearest
from graphql_api.model.access_declarations import Rules, RulesArgument, normalize_rules
from graphql_api.model.annotations import parse_annotation
from graphql_api.model.constraint_declarations import Constraint, Counted, ForeignKey, Generated, UniqueTogether
from graphql_api.model.join_declarations import Join
from graphql_api.model.markers import Derived, Index, Primary, Searchable, Shards, Union
from graphql_api.model.naming import entity_name
from graphql_api.model.record_identity import RecordKeyAttribute

S = TypeVar("S", Index, Union, Join, Constraint)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an entity's class declares besides its properties."""

    name: str
    shards: Shards
    separator: str
    indexes: Mapping[str, Index]
    """by attribute, inherited ones first"""
    unions: Mapping[str, Union]
    """by attribute, inherited ones first"""
    joins: Mapping[str, Join]
    """by attribute, inherited ones first"""
    derived: Mapping[str, Derived]
    """by property, in order of computation: sources come before the properties that are derived from them"""
    allow: Rules | None
    """who may read its records; None: anyone"""
    current: str | None
    """the sub id of the current record, which holds the latest state of a history"""
    write: Rules | None
    """who may write its records; None: every caller who may read them"""
    constraints: Mapping[str, Constraint]
    """by attribute, inherited ones first"""


class Entity(BaseModel):
    """Base class of entities. Annotations declare properties, attributes `by_…` indexes, other attributes joins."""

    model_config = ConfigDict(
        ignored_types=(Searchable, Join, Constraint, RecordKeyAttribute),
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    __declaration__: ClassVar[Declaration]
    by_id = Primary()

    if TYPE_CHECKING:  # Any, so that an entity may declare a property `key` of any type

        @property
        def key(self) -> Any:
            """The `RecordKey` of this record."""
    else:
        key = RecordKeyAttribute()

    def __init_subclass__(
        cls,
        *,
        shards: Shards | None = None,
        name: str | None = None,
        separator: str | None = None,
        allow: RulesArgument = None,
        current: str | None = None,
        write: RulesArgument = None,
        **config: Any,
    ) -> None:
        """Read the class keywords. All but `name` are inherited; `name` defaults to the class name in camelCase."""
        super().__init_subclass__(**config)
        inherited: Declaration | None = getattr(cls, "__declaration__", None)
        cls.__declaration__ = Declaration(
            name=entity_name(cls.__name__) if name is None else name,
            shards=shards or (inherited.shards if inherited else Shards(1)),
            separator=separator if separator is not None else inherited.separator if inherited else "/",
            indexes=_declared(cls, Index),
            unions=_declared(cls, Union),
            joins=_declared(cls, Join),
            derived={},
            allow=normalize_rules(allow) if allow is not None else inherited.allow if inherited else None,
            current=current if current is not None else inherited.current if inherited else None,
            write=normalize_rules(write) if write is not None else inherited.write if inherited else None,
            constraints=_declared(cls, Constraint),
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Raise `InvalidCatalog` with all references to properties and indexes that do not exist."""
        violations = [
            *_index_violations(cls),
            *_union_violations(cls),
            *_derived_violations(cls),
            *_join_violations(cls),
            *_constraint_violations(cls),
        ]
        if violations:
            raise InvalidCatalog(violations)
        _select_factories(cls)
        cls.__declaration__ = replace(cls.__declaration__, derived=_sources_first(_derived(cls)))

    @model_validator(mode="before")
    @classmethod
    def _drop_provided_derived(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {name: value for name, value in data.items() if name not in cls.__declaration__.derived}
        return data

    @model_validator(mode="after")
    def _compute_derived(self) -> Self:
        self.compute_derived()
        return self

    def compute_derived(self) -> None:
        """Recompute every derived property from the current values of its sources."""
        for name, rule in type(self).__declaration__.derived.items():
            self.__dict__[name] = rule.compute(self)


def _declared(model: type[Entity], kind: type[S]) -> dict[str, S]:
    """Return all declared and inherited attributes of a type. A subclass overrides attributes by name."""
    attributes = {name: value for base in reversed(model.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in attributes.items() if isinstance(value, kind)}


def _derived(model: type[Entity]) -> dict[str, Derived]:
    return {
        name: field.default_factory
        for name, field in model.model_fields.items()
        if isinstance(field.default_factory, Derived)
    }


def _select_factories(model: type[Entity]) -> None:
    """Generate values of each property's type, if supported. The catalog reports unsupported types."""
    for field in model.model_fields.values():
        if isinstance(field.default_factory, Generated):
            field.default_factory.select_factory(parse_annotation(field.annotation, field.metadata).codec)


def _sources_first(rules: dict[str, Derived]) -> dict[str, Derived]:
    """Sort derived properties after their sources. A cycle stays unsorted: the catalog reports it."""
    try:
        order = graphlib.TopologicalSorter({name: rule.sources for name, rule in rules.items()}).static_order()
        return {name: rules[name] for name in order if name in rules}
    except graphlib.CycleError:
        return rules


def _index_violations(model: type[Entity]) -> list[Violation]:
    violations = []
    for attribute, index in model.__declaration__.indexes.items():
        uses = [("is hashed by", name) for name in index.hash] + [("is sorted by", name) for name, _ in index.sort]
        if isinstance(index.projection, tuple):
            uses += [("carries", name) for name in index.projection]
        elif index.projection not in ("ALL", "KEYS_ONLY"):
            violations.append(
                Violation(
                    model.__name__,
                    attribute,
                    f"has the projection {index.projection!r}.",
                    'Set "ALL", "KEYS_ONLY" or a list of properties.',
                )
            )
        violations += [
            _unknown_property(model, attribute, use, name) for use, name in uses if name not in model.model_fields
        ]
    return violations


def _union_violations(model: type[Entity]) -> list[Violation]:
    indexes = model.__declaration__.indexes
    return [
        Violation(model.__name__, attribute, *_invalid_member(model, name))
        for attribute, union in model.__declaration__.unions.items()
        for name in union.members
        if name not in indexes
    ]


def _invalid_member(model: type[Entity], name: str) -> tuple[str, str]:
    """Return why a union cannot have a member of this name, and the remedy."""
    declared = model.__declaration__
    if name == "by_id":
        return (
            "is a union of 'by_id', which is the table itself and not an index.",
            "Search ids by by_id alone, or declare an index that is sorted by them.",
        )
    if name in declared.unions:
        return (
            f"is a union of {name!r}, which is a union itself.",
            f"Name its members instead: {', '.join(declared.unions[name].members)}.",
        )
    return (
        f"is a union of {name!r}, which is no index of {model.__name__}.",
        nearest(name, declared.indexes).strip() or f"Its indexes are {', '.join(declared.indexes)}.",
    )


def _derived_violations(model: type[Entity]) -> list[Violation]:
    return [
        _unknown_property(model, name, "is derived from", source)
        for name, rule in _derived(model).items()
        for source in rule.sources
        if source not in model.model_fields
    ]


def _join_violations(model: type[Entity]) -> list[Violation]:
    return [
        _unknown_property(model, attribute, "is joined by", name)
        for attribute, join in model.__declaration__.joins.items()
        for name in join.by or ()
        if name not in model.model_fields
    ]


def _constraint_violations(model: type[Entity]) -> list[Violation]:
    uses: list[tuple[str, str, str]] = []
    for attribute, constraint in model.__declaration__.constraints.items():
        if isinstance(constraint, UniqueTogether):
            uses += [(attribute, "is unique by", name) for name in constraint.properties]
        elif isinstance(constraint, ForeignKey):
            uses += [(attribute, "references a record by", name) for name in constraint.by]
    for attribute, field in model.model_fields.items():
        if isinstance(field.default_factory, Counted):
            uses += [(attribute, "counts records grouped by", name) for name in field.default_factory.group]
    return [
        _unknown_property(model, attribute, use, name)
        for attribute, use, name in uses
        if name not in model.model_fields
    ]


def _unknown_property(model: type[Entity], attribute: str, use: str, name: str) -> Violation:
    hint = nearest(name, model.model_fields).strip()
    return Violation(
        model.__name__,
        attribute,
        f"{use} {name!r}, which is no property of {model.__name__}.",
        hint or f"Its properties are {', '.join(model.model_fields)}.",
    )
