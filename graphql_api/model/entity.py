"""The base of every declared entity: a pydantic model that knows its indexes, its shards and its derived properties."""

import graphlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

from graphql_api.errors import InvalidCatalog, Violation, nearest
from graphql_api.model.access_declarations import Allow, Rules, rules_of
from graphql_api.model.annotations import read_annotation
from graphql_api.model.constraint_declarations import Constraint, Counted, ForeignKey, Generated, UniqueTogether
from graphql_api.model.join_declarations import Join
from graphql_api.model.markers import Derived, Index, Primary, Searchable, Shards, Union
from graphql_api.model.naming import entity_name
from graphql_api.model.record_identity import KeyOfRecord

S = TypeVar("S", Index, Union, Join, Constraint)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What stands in the head of an entity's class, and what its properties and indexes are."""

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
    """by property, sources before what is computed from them"""
    allow: Rules | None
    """who may read its records; None: everybody"""
    current: str | None
    """the sub id of the entry that always holds the latest state of its id"""
    write: Rules | None
    """who may write its records; None: whoever may read them"""
    constraints: Mapping[str, Constraint]
    """by attribute, inherited ones first"""


class Entity(BaseModel):
    """A kind of record: properties are annotated, indexes are attributes `by_…`, joins attributes of any name."""

    model_config = ConfigDict(
        ignored_types=(Searchable, Join, Constraint, KeyOfRecord),
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    __declaration__: ClassVar[Declaration]
    by_id = Primary()

    if TYPE_CHECKING:  # of any type, so that a property of this name may be of its own

        @property
        def key(self) -> Any:
            """The `RecordKey` of this record."""
    else:
        key = KeyOfRecord()

    def __init_subclass__(
        cls,
        *,
        shards: Shards | None = None,
        name: str | None = None,
        separator: str | None = None,
        allow: Allow = None,
        current: str | None = None,
        write: Allow = None,
        **config: Any,
    ) -> None:
        """All but `name` are inherited; that is the class name in camelCase unless it is given."""
        super().__init_subclass__(**config)
        above: Declaration | None = getattr(cls, "__declaration__", None)
        cls.__declaration__ = Declaration(
            name=entity_name(cls.__name__) if name is None else name,
            shards=shards or (above.shards if above else Shards(1)),
            separator=separator if separator is not None else above.separator if above else "/",
            indexes=_declared(cls, Index),
            unions=_declared(cls, Union),
            joins=_declared(cls, Join),
            derived={},
            allow=rules_of(allow) if allow is not None else above.allow if above else None,
            current=current if current is not None else above.current if above else None,
            write=rules_of(write) if write is not None else above.write if above else None,
            constraints=_declared(cls, Constraint),
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuses mistyped names at once, all of the class together."""
        mistakes = [
            *_index_mistakes(cls),
            *_union_mistakes(cls),
            *_derived_mistakes(cls),
            *_join_mistakes(cls),
            *_constraint_mistakes(cls),
        ]
        if mistakes:
            raise InvalidCatalog(mistakes)
        _fit_generated(cls)
        cls.__declaration__ = replace(cls.__declaration__, derived=_in_order(_derived(cls)))

    @model_validator(mode="before")
    @classmethod
    def _drop_given_derived(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {name: value for name, value in data.items() if name not in cls.__declaration__.derived}
        return data

    @model_validator(mode="after")
    def _compute_derived(self) -> Self:
        self.compute_derived()
        return self

    def compute_derived(self) -> None:
        """Brings every derived property up to the present values of its sources."""
        for name, rule in type(self).__declaration__.derived.items():
            self.__dict__[name] = rule.of(self)


def _declared(model: type[Entity], kind: type[S]) -> dict[str, S]:
    """All attributes of a kind that a class declares or inherits; a later class replaces by name."""
    found = {name: value for base in reversed(model.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in found.items() if isinstance(value, kind)}


def _derived(model: type[Entity]) -> dict[str, Derived]:
    return {
        name: field.default_factory
        for name, field in model.model_fields.items()
        if isinstance(field.default_factory, Derived)
    }


def _fit_generated(model: type[Entity]) -> None:
    """Lets what is generated be of its property's type, as far as that is known; the catalog reports what cannot be."""
    for field in model.model_fields.values():
        if isinstance(field.default_factory, Generated):
            field.default_factory.fit(read_annotation(field.annotation, field.metadata).codec)


def _in_order(rules: dict[str, Derived]) -> dict[str, Derived]:
    """Sources first. A circle has no order; the catalog reports it."""
    try:
        order = graphlib.TopologicalSorter({name: rule.sources for name, rule in rules.items()}).static_order()
        return {name: rules[name] for name in order if name in rules}
    except graphlib.CycleError:
        return rules


def _index_mistakes(model: type[Entity]) -> list[Violation]:
    mistakes = []
    for attribute, index in model.__declaration__.indexes.items():
        uses = [("is hashed by", name) for name in index.hash] + [("is sorted by", name) for name, _ in index.sort]
        if isinstance(index.projection, tuple):
            uses += [("carries", name) for name in index.projection]
        elif index.projection not in ("ALL", "KEYS_ONLY"):
            mistakes.append(
                Violation(
                    model.__name__,
                    attribute,
                    f"has the projection {index.projection!r}.",
                    'Say "ALL", "KEYS_ONLY" or a list of properties.',
                )
            )
        mistakes += [_unknown(model, attribute, does, name) for does, name in uses if name not in model.model_fields]
    return mistakes


def _union_mistakes(model: type[Entity]) -> list[Violation]:
    indexes = model.__declaration__.indexes
    return [
        Violation(model.__name__, attribute, *_no_member(model, name))
        for attribute, union in model.__declaration__.unions.items()
        for name in union.members
        if name not in indexes
    ]


def _no_member(model: type[Entity], name: str) -> tuple[str, str]:
    """Why a union cannot have a member of this name, and what to do."""
    declared = model.__declaration__
    if name == "by_id":
        return (
            "is a union of 'by_id', which is the table itself: every record stands there, by its id alone.",
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


def _derived_mistakes(model: type[Entity]) -> list[Violation]:
    return [
        _unknown(model, name, "is derived from", source)
        for name, rule in _derived(model).items()
        for source in rule.sources
        if source not in model.model_fields
    ]


def _join_mistakes(model: type[Entity]) -> list[Violation]:
    return [
        _unknown(model, attribute, "is joined by", name)
        for attribute, join in model.__declaration__.joins.items()
        for name in join.by or ()
        if name not in model.model_fields
    ]


def _constraint_mistakes(model: type[Entity]) -> list[Violation]:
    uses: list[tuple[str, str, str]] = []
    for attribute, constraint in model.__declaration__.constraints.items():
        if isinstance(constraint, UniqueTogether):
            uses += [(attribute, "is unique by", name) for name in constraint.properties]
        elif isinstance(constraint, ForeignKey):
            uses += [(attribute, "names another record by", name) for name in constraint.by]
    for attribute, field in model.model_fields.items():
        if isinstance(field.default_factory, Counted):
            uses += [(attribute, "counts the records of one", name) for name in field.default_factory.group]
    return [_unknown(model, attribute, does, name) for attribute, does, name in uses if name not in model.model_fields]


def _unknown(model: type[Entity], attribute: str, does: str, name: str) -> Violation:
    hint = nearest(name, model.model_fields).strip()
    return Violation(
        model.__name__,
        attribute,
        f"{does} {name!r}, which is no property of {model.__name__}.",
        hint or f"Its properties are {', '.join(model.model_fields)}.",
    )
