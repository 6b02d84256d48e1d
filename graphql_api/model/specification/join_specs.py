"""Joins as they are declared become specifications; everything that cannot be joined is reported together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NoReturn

from graphql_api.codecs import Codec
from graphql_api.errors import Violation, nearest
from graphql_api.model.annotations import codec_of_items
from graphql_api.model.join_declarations import Join
from graphql_api.model.naming import NAME, camel_case
from graphql_api.model.specs import EntitySpec, IndexSpec, JoinSpec, PropertySpec

_GENERATED = "id"
"""the field that the type of every record has by itself"""


def joined(specs: Sequence[EntitySpec], problems: list[Violation]) -> list[EntitySpec]:
    """The same entities with their joins; those that are broken are left out, and reported."""
    entities = {spec.type_name: spec for spec in specs}
    made = []
    for spec in specs:
        problems += [Violation(spec.type_name, place, problem, remedy) for place, problem, remedy in _names(spec)]
        joins = {}
        for name, join in spec.model.__declaration__.joins.items():
            try:
                joins[name] = _Joining(spec, name, join, entities).made()
            except _Broken as broken:
                problems.append(Violation(spec.type_name, name, *broken.args))
        made.append(replace(spec, joins=MappingProxyType(joins)))
    return made


def _names(spec: EntitySpec) -> Iterator[tuple[str, str, str]]:
    """Joins are fields beside properties: no two may have one name."""
    taken = {camel_case(name): f"the property {name!r}" for name in spec.properties}
    for name in spec.model.__declaration__.joins:
        field = camel_case(name)
        if not NAME.fullmatch(field):
            yield name, "has a name that GraphQL cannot write.", "Use ASCII letters and digits, a letter first."
        elif field == _GENERATED:
            yield name, f"becomes the field {field!r}, which every record has by itself.", "Rename it."
        elif field in taken:
            yield name, f"becomes the field {field!r}, which is taken by {taken[field]}.", "Rename one of the two."
        taken.setdefault(field, f"the join {name!r}")


class _Broken(Exception):
    """Why a join cannot be: problem and remedy."""


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise _Broken(problem, remedy)


@dataclass(frozen=True, slots=True)
class _Joining:
    """One join on its way to a specification."""

    spec: EntitySpec
    name: str
    join: Join
    entities: Mapping[str, EntitySpec]

    def made(self) -> JoinSpec:
        join, target = self.join, self._target()
        if join.kind == "many":
            by, found_by = self._many(target)
        elif join.via is not None:
            by, found_by = self._via(target, join.via)
        else:
            by, found_by = self._by_key(target)
        return JoinSpec(
            self.name, join.kind, target.name, join.via, by, tuple(part.name for part in found_by), join.description
        )

    def _target(self) -> EntitySpec:
        named, known = self.join.entity, self.entities
        if named in known:
            return known[named]
        _refuse(
            f"joins {named!r}, which is no entity of this catalog.",
            nearest(named, known).strip() or f"Its entities are {', '.join(known)}.",
        )

    # --- by its primary key ------------------------------------------------------------------------------------

    def _by_key(self, target: EntitySpec) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        by = self._own(self.join.by or ())
        if len(by) not in (len(target.ids), len(target.primary)):
            whole = f", or with {_listed(target.sub_ids)} too" if target.sub_ids else ""
            _refuse(
                f"joins {target.type_name} by {_counted(by)}.",
                f"Its id is {_listed(target.ids) or 'nothing'}: name one property for each part{whole}.",
            )
        found_by = target.primary[: len(by)]
        self._check_values(target, by, found_by)
        return by, found_by

    def _many(self, target: EntitySpec) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        by = self._own(self.join.by or ())
        if len(target.primary) != 1:
            _refuse(
                f"joins several {target.type_name} by their ids, and the key of one is "
                f"{_listed(target.primary) or 'nothing'}.",
                "Lists hold ids of one part: join by HasMany, through an index.",
            )
        (part,) = by
        codec = codec_of_items(self.spec.model.model_fields[part.name].annotation)
        if codec is None:
            _refuse(
                f"joins {target.type_name} by {part.name}, which is no list of plain values.",
                "Name a list, tuple or set of ids; join by Ref where it is one.",
            )
        self._check_type(target, part.name, codec, target.primary[0])
        return by, target.primary

    # --- by an index -------------------------------------------------------------------------------------------

    def _via(self, target: EntitySpec, via: str) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        index = self._index(target, via)
        needed = (*index.hash, *index.lead)
        if self.join.kind == "page":
            by, found_by = self._of_page(target, index, needed), needed
        else:
            by = self._own(self.join.by or ())
            found_by = (*needed, *(part.property for part in index.sort))[: len(by)]
            most = len(needed) + len(index.sort)
            if not max(1, len(needed)) <= len(by) <= most:
                _refuse(
                    f"searches {target.type_name}.{via} by {_counted(by)}.",
                    f"Name one property for each of {_listed((*needed, *(part.property for part in index.sort)))}"
                    f"{'' if most == len(needed) else f', at least {max(1, len(needed))}'}.",
                )
        self._check_values(target, by, found_by)
        return by, found_by

    def _index(self, target: EntitySpec, via: str) -> IndexSpec:
        union = target.unions.get(via)
        if union is not None and union.members:
            if self.join.kind == "one":
                _refuse(
                    f"joins one {target.type_name} through the union {via}.",
                    f"Name one of its indexes: {', '.join(member.attribute for member in union.members)}.",
                )
            return union.members[0]
        index = target.indexes.get(via)
        if index is None:
            known = [*target.indexes, *target.unions]
            _refuse(
                f"joins {target.type_name} through {via!r}, which is no index of it.",
                nearest(via, known).strip() or f"Its indexes are {', '.join(known)}.",
            )
        if index.physical is None and not target.sub_ids:
            _refuse(
                f"joins {target.type_name} through by_id, and an id has one record.",
                "Join by Ref, without via.",
            )
        return index

    def _of_page(
        self, target: EntitySpec, index: IndexSpec, needed: Sequence[PropertySpec]
    ) -> tuple[PropertySpec, ...]:
        if not needed:
            _refuse(
                f"finds every {target.type_name} through {index.attribute}, whatever record it is a field of.",
                "Name an index with hash properties that this entity has values for.",
            )
        if self.join.by is None:
            missing = next((part.name for part in needed if part.name not in self.spec.properties), None)
            if missing is not None:
                hint = nearest(missing, self.spec.properties).strip()
                _refuse(
                    f"searches {target.type_name}.{index.attribute} by {missing!r}, which is no property of "
                    f"{self.spec.type_name}.",
                    f"Say by which property it is found: by=….{f' {hint}' if hint else ''}",
                )
        by = self._own(self.join.by if self.join.by is not None else [part.name for part in needed])
        if len(by) != len(needed):
            _refuse(
                f"searches {target.type_name}.{index.attribute} by {_counted(by)}.",
                f"Name one property for each of {_listed(needed)}.",
            )
        return by

    # --- what is given, and what is looked for -----------------------------------------------------------------

    def _own(self, names: Iterable[str]) -> tuple[PropertySpec, ...]:
        """Properties of the entity itself; that they exist was seen when its class was made."""
        return tuple(self.spec.properties[name] for name in names)

    def _check_values(self, target: EntitySpec, by: Sequence[PropertySpec], found_by: Sequence[PropertySpec]) -> None:
        for own, part in zip(by, found_by, strict=True):
            if own.codec is None:
                _refuse(
                    f"joins {target.type_name} by {own.name}, which is not one plain value.",
                    "Name a property that holds one; join by RefMany where it is a list of ids.",
                )
            self._check_type(target, own.name, own.codec, part)

    def _check_type(self, target: EntitySpec, name: str, codec: Codec[object], part: PropertySpec) -> None:
        """A derived property is searched by what it is derived from as well."""
        source = target.properties[part.sources[0]].codec if part.searched is not None else None
        if part.codec is not None and codec not in (part.codec, source):
            _refuse(
                f"looks for {target.type_name}.{part.name}, which is {part.codec.name}, by {name}, which is "
                f"{codec.name}.",
                "Give both properties the same type.",
            )


def _counted(by: Sequence[PropertySpec]) -> str:
    if not by:
        return "no property"
    return f"{len(by)} propert{'y' if len(by) == 1 else 'ies'} ({_listed(by)})"


def _listed(parts: Iterable[PropertySpec]) -> str:
    return ", ".join(part.name for part in parts)
