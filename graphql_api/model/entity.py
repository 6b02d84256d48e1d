"""`Entity`: the base class of declared entities, a pydantic model with indexes, shards and derived properties."""

import graphlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from graphql_api.errors import InvalidCatalog, Violation
from graphql_api.model.access_declarations import Rules, RulesArgument, normalize_rules
from graphql_api.model.markers import Derived, Index, Lookup, Searchable, Shards, Union, derived
from graphql_api.model.naming import entity_name
from graphql_api.model.property_specs import parse_annotation
from graphql_api.model.record_identity import RecordKeyAttribute
from graphql_api.model.relation_declarations import Constraint, Counted, Generated, Join
from graphql_api.model.specs import NO_OTHER_FUNCTIONS, DerivedFunctions
from graphql_api.model.violations import Violations, nearest_or_all

S = TypeVar("S", Index, Lookup, Union, Join, Constraint)
F = TypeVar("F", Derived, Counted, Generated)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an entity's class declares besides its properties, as in `EntitySpec`. Subclasses inherit most of it."""

    name: str = ""
    version: int = 1
    shards: Shards = field(default_factory=lambda: Shards(1))
    separator: str = "/"
    allow: Rules | None = None
    write: Rules | None = None
    current: str | None = None
    record_bytes: int | None = None
    max_record_bytes: int | None = None
    indexes: Mapping[str, Index] = field(default_factory=dict)
    """by attribute, inherited ones first; so are lookups, unions, joins and constraints"""
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    unions: Mapping[str, Union] = field(default_factory=dict)
    joins: Mapping[str, Join] = field(default_factory=dict)
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """by property, in order of computation: sources come before the properties that are derived from them"""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, PrivateAttr, derived))
class Entity(BaseModel):
    """Base class of entities. Annotations declare properties, attributes `by_…` indexes, other attributes joins."""

    model_config = ConfigDict(
        ignored_types=(Searchable, Join, Constraint, RecordKeyAttribute),
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    __declaration__: ClassVar[Declaration] = Declaration()
    by_id: ClassVar[Searchable] = Searchable()

    if TYPE_CHECKING:  # Any, so that an entity may declare a property `key` of any type

        @property
        def key(self) -> Any:
            """The `RecordKey` of this record."""

        # Stubs declare the properties of each entity instead of `parts`, `values` and `changes`.
        @classmethod
        def _get_arguments(cls, id: Any = None, /, *, consistent: bool = True, **parts: Any) -> Self: ...

        @classmethod
        def _get_by_arguments(cls, **values: Any) -> Self: ...

        @classmethod
        def _create_arguments(cls, *, idempotency_key: str | None = None, **values: Any) -> Self: ...

        @classmethod
        def _update_arguments(
            cls,
            id: Any = None,
            /,
            *,
            expected_version: int | None = None,
            idempotency_key: str | None = None,
            **changes: Any,
        ) -> Self: ...

        @classmethod
        def _delete_arguments(
            cls,
            id: Any = None,
            /,
            *,
            expected_version: int | None = None,
            idempotency_key: str | None = None,
            **parts: Any,
        ) -> Self: ...

        @classmethod
        def _remove_arguments(cls, id: Any = None, /, *, expected_version: int | None = None, **parts: Any) -> Self: ...

        @classmethod
        def _change_arguments(
            cls, id: Any = None, /, *, expected_version: int | None = None, **changes: Any
        ) -> Self: ...
    else:
        key = RecordKeyAttribute()

    def __init_subclass__(
        cls,
        *,
        shards: Shards | None = None,
        name: str | None = None,
        version: int = 1,
        separator: str | None = None,
        allow: RulesArgument = None,
        current: str | None = None,
        write: RulesArgument = None,
        record_bytes: int | None = None,
        max_record_bytes: int | None = None,
        **config: Any,
    ) -> None:
        """Read the class keywords. All but `name` and `version` are inherited.

        `name`: in the table, by default the class name in camelCase.
        `version`: of the records, which projections build. A new version is built by `shardql project --replay`.
        `record_bytes`: the usual size of a stored record, and `max_record_bytes`: the greatest that writes accept.
        Both are for the estimates of capacity units.
        """
        super().__init_subclass__(**config)
        keywords: dict[str, Any] = {
            "shards": shards,
            "separator": separator,
            "allow": normalize_rules(allow),
            "write": normalize_rules(write),
            "current": current,
            "record_bytes": record_bytes,
            "max_record_bytes": max_record_bytes,
        }
        cls.__declaration__ = replace(
            cls.__declaration__,
            name=entity_name(cls.__name__) if name is None else name,
            version=version,
            indexes=_declared(cls, Index),
            lookups=_declared(cls, Lookup),
            unions=_declared(cls, Union),
            joins=_declared(cls, Join),
            constraints=_declared(cls, Constraint),
            **{keyword: value for keyword, value in keywords.items() if value is not None},
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Raise `InvalidCatalog` with all references to properties and indexes that do not exist."""
        violations = [Violation(cls.__name__, *violation) for violation in _reference_violations(cls)]
        if violations:
            raise InvalidCatalog(violations)
        for name, factory in _factories(cls, Generated).items():
            part = cls.model_fields[name]
            # The catalog reports unsupported types.
            factory.select_factory(parse_annotation(part.annotation, part.metadata).codec)
        cls.__declaration__ = replace(cls.__declaration__, derived=_sources_first(_factories(cls, Derived)))

    @model_validator(mode="before")
    @classmethod
    def _drop_provided_derived(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {name: value for name, value in data.items() if name not in cls.__declaration__.derived}
        return data

    @model_validator(mode="after")
    def _compute_derived(self, info: ValidationInfo) -> Self:
        self.compute_derived(info.context if isinstance(info.context, DerivedFunctions) else NO_OTHER_FUNCTIONS)
        return self

    def compute_derived(self, functions: DerivedFunctions = NO_OTHER_FUNCTIONS) -> None:
        """Recompute every derived property from the current values of its sources."""
        for name, rule in type(self).__declaration__.derived.items():
            self.__dict__[name] = rule.compute(self, functions.get(name))


def _declared(model: type[Entity], kind: type[S]) -> dict[str, S]:
    """Return all declared and inherited attributes of a type. A subclass overrides attributes by name."""
    attributes = {name: value for base in reversed(model.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in attributes.items() if isinstance(value, kind)}


def _factories(model: type[Entity], kind: type[F]) -> dict[str, F]:
    """Return the default factories of a type by property."""
    factories = {name: part.default_factory for name, part in model.model_fields.items()}
    return {name: factory for name, factory in factories.items() if isinstance(factory, kind)}


def _sources_first(rules: dict[str, Derived]) -> dict[str, Derived]:
    """Sort derived properties after their sources. A cycle stays unsorted: the catalog reports it."""
    try:
        order = graphlib.TopologicalSorter({name: rule.sources for name, rule in rules.items()}).static_order()
        return {name: rules[name] for name in order if name in rules}
    except graphlib.CycleError:
        return rules


def _reference_violations(model: type[Entity]) -> Violations:
    """Check that all names of properties and of indexes in the class exist."""
    declared = model.__declaration__
    for attribute, index in declared.indexes.items():
        carried = index.projection if isinstance(index.projection, tuple) else ()
        if not carried and index.projection not in ("ALL", "KEYS_ONLY", ()):
            remedy = 'Set "ALL", "KEYS_ONLY" or a list of properties.'
            yield attribute, f"has the projection {index.projection!r}.", remedy
        yield from _unknown_properties(model, attribute, "is hashed by", index.hash)
        yield from _unknown_properties(model, attribute, "is sorted by", [name for name, _ in index.sort])
        yield from _unknown_properties(model, attribute, "carries", carried)
    for attribute, lookup in declared.lookups.items():
        yield from _unknown_properties(model, attribute, "looks up", lookup.properties)
    for attribute, union in declared.unions.items():
        for name in union.members:
            if name not in declared.indexes:
                yield attribute, *_invalid_member(model, name)
    for name, rule in _factories(model, Derived).items():
        yield from _unknown_properties(model, name, "is derived from", rule.sources)
    for attribute, join in declared.joins.items():
        yield from _unknown_properties(model, attribute, "is joined by", join.by or ())
    for attribute, constraint in declared.constraints.items():
        yield from _unknown_properties(model, attribute, constraint.use, constraint.properties)
    for name, counted in _factories(model, Counted).items():
        yield from _unknown_properties(model, name, "counts records grouped by", counted.group)


def _unknown_properties(model: type[Entity], attribute: str, use: str, names: Iterable[str]) -> Violations:
    for name in names:
        if name not in model.model_fields:
            remedy = nearest_or_all(name, model.model_fields, "properties")
            yield attribute, f"{use} {name!r}, which is no property of {model.__name__}.", remedy


def _invalid_member(model: type[Entity], name: str) -> tuple[str, str]:
    """Return why a union cannot have a member of this name, and the remedy."""
    declared = model.__declaration__
    if name == "by_id":
        remedy = "Search ids by by_id alone, or declare an index that is sorted by them."
        return "is a union of 'by_id', which is the table itself and not an index.", remedy
    if name in declared.lookups:
        remedy = "Search the lookup by its own field."
        return f"is a union of {name!r}, which is a lookup and not an index.", remedy
    if name in declared.unions:
        remedy = f"Name its members instead: {', '.join(declared.unions[name].members)}."
        return f"is a union of {name!r}, which is a union itself.", remedy
    remedy = nearest_or_all(name, declared.indexes, "indexes")
    return f"is a union of {name!r}, which is no index of {model.__name__}.", remedy
