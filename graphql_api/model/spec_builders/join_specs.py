"""Build and validate the specifications of joins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NoReturn

from graphql_api.codecs import Codec
from graphql_api.errors import Violation, nearest
from graphql_api.model.annotations import item_codec
from graphql_api.model.join_declarations import Join
from graphql_api.model.naming import NAME_PATTERN, camel_case
from graphql_api.model.specs import EntitySpec, IndexSpec, JoinSpec, PropertySpec

_RESERVED_FIELD = "id"
"""the field that every record type has"""


def with_joins(specs: Sequence[EntitySpec], violations: list[Violation]) -> list[EntitySpec]:
    """Add joins to entities. Invalid joins are reported and omitted."""
    entities = {spec.type_name: spec for spec in specs}
    joined_specs = []
    for spec in specs:
        violations += [
            Violation(spec.type_name, name, problem, remedy) for name, problem, remedy in _name_problems(spec)
        ]
        joins = {}
        for name, join in spec.model.__declaration__.joins.items():
            try:
                joins[name] = _JoinSpecBuilder(spec, name, join, entities).build()
            except _InvalidJoin as invalid:
                violations.append(Violation(spec.type_name, name, *invalid.args))
        joined_specs.append(replace(spec, joins=MappingProxyType(joins)))
    return joined_specs


def _name_problems(spec: EntitySpec) -> Iterator[tuple[str, str, str]]:
    """Check the field names of joins, which must differ from each other and from those of properties."""
    used_by = {camel_case(name): f"the property {name!r}" for name in spec.properties}
    for name in spec.model.__declaration__.joins:
        field = camel_case(name)
        if not NAME_PATTERN.fullmatch(field):
            yield name, "has a name that GraphQL does not allow.", "Use ASCII letters and digits, a letter first."
        elif field == _RESERVED_FIELD:
            yield name, f"becomes the field {field!r}, which every record type has.", "Rename it."
        elif field in used_by:
            yield name, f"becomes the field {field!r}, which {used_by[field]} uses.", "Rename one of the two."
        used_by.setdefault(field, f"the join {name!r}")


class _InvalidJoin(Exception):
    """An invalid join, with problem and remedy as arguments."""


def _reject(problem: str, remedy: str) -> NoReturn:
    raise _InvalidJoin(problem, remedy)


@dataclass(frozen=True, slots=True)
class _JoinSpecBuilder:
    """Build the specification of one join. Each method returns own properties and the matched target properties."""

    spec: EntitySpec
    name: str
    join: Join
    entities: Mapping[str, EntitySpec]

    def build(self) -> JoinSpec:
        join, target = self.join, self._target()
        if join.kind == "many":
            by, matched = self._by_item_ids(target)
        elif join.via is not None:
            by, matched = self._by_index(target, join.via)
        else:
            by, matched = self._by_key(target)
        return JoinSpec(
            self.name, join.kind, target.name, join.via, by, tuple(part.name for part in matched), join.description
        )

    def _target(self) -> EntitySpec:
        name = self.join.entity
        if name in self.entities:
            return self.entities[name]
        _reject(
            f"joins {name!r}, which is no entity of this catalog.",
            nearest(name, self.entities).strip() or f"Its entities are {', '.join(self.entities)}.",
        )

    # --- by primary key ----------------------------------------------------------------------------------------

    def _by_key(self, target: EntitySpec) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        by = self._own_properties(self.join.by or ())
        if len(by) not in (len(target.ids), len(target.primary_key)):
            or_sub_ids = f", or with {_list_names(target.sub_ids)} too" if target.sub_ids else ""
            _reject(
                f"joins {target.type_name} by {_count_text(by)}.",
                f"Its id is {_list_names(target.ids) or 'empty'}: name one property for each part{or_sub_ids}.",
            )
        matched = target.primary_key[: len(by)]
        self._check_values(target, by, matched)
        return by, matched

    def _by_item_ids(self, target: EntitySpec) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        by = self._own_properties(self.join.by or ())
        if len(target.primary_key) != 1:
            _reject(
                f"joins several {target.type_name} by id, and its key is {_list_names(target.primary_key) or 'empty'}.",
                "RefMany needs a key of one part: use HasMany with an index.",
            )
        (part,) = by
        codec = item_codec(self.spec.model.model_fields[part.name].annotation)
        if codec is None:
            _reject(
                f"joins {target.type_name} by {part.name}, which is no list of scalars.",
                "Name a list, tuple or set of ids, or use Ref for a single id.",
            )
        self._check_type(target, part.name, codec, target.primary_key[0])
        return by, target.primary_key

    # --- by an index -------------------------------------------------------------------------------------------

    def _by_index(self, target: EntitySpec, via: str) -> tuple[tuple[PropertySpec, ...], Sequence[PropertySpec]]:
        index = self._index(target, via)
        required = (*index.hash, *index.id_prefix)
        if self.join.kind == "page":
            by, matched = self._page_properties(target, index, required), required
        else:
            by = self._own_properties(self.join.by or ())
            matched = (*required, *(part.property for part in index.sort))[: len(by)]
            maximum = len(required) + len(index.sort)
            if not max(1, len(required)) <= len(by) <= maximum:
                _reject(
                    f"searches {target.type_name}.{via} by {_count_text(by)}.",
                    f"Name one property for each of {_list_names((*required, *(part.property for part in index.sort)))}"
                    f"{'' if maximum == len(required) else f', at least {max(1, len(required))}'}.",
                )
        self._check_values(target, by, matched)
        return by, matched

    def _index(self, target: EntitySpec, via: str) -> IndexSpec:
        union = target.unions.get(via)
        if union is not None and union.members:
            if self.join.kind == "one":
                _reject(
                    f"joins one {target.type_name} through the union {via}.",
                    f"Name one of its indexes: {', '.join(member.attribute for member in union.members)}.",
                )
            return union.members[0]
        index = target.indexes.get(via)
        if index is None:
            known = [*target.indexes, *target.unions]
            _reject(
                f"joins {target.type_name} through {via!r}, which is no index of {target.type_name}.",
                nearest(via, known).strip() or f"Its indexes are {', '.join(known)}.",
            )
        if index.physical is None and not target.sub_ids:
            _reject(
                f"joins {target.type_name} through by_id, which finds only one record.",
                "Use Ref without via.",
            )
        return index

    def _page_properties(
        self, target: EntitySpec, index: IndexSpec, required: Sequence[PropertySpec]
    ) -> tuple[PropertySpec, ...]:
        if not required:
            _reject(
                f"joins all {target.type_name} records, because {index.attribute} has no hash properties.",
                "Name an index whose hash properties match properties of this entity.",
            )
        if self.join.by is None:
            missing = next((part.name for part in required if part.name not in self.spec.properties), None)
            if missing is not None:
                hint = nearest(missing, self.spec.properties).strip()
                _reject(
                    f"searches {target.type_name}.{index.attribute} by {missing!r}, which is no property of "
                    f"{self.spec.type_name}.",
                    f"Name the property with by=….{f' {hint}' if hint else ''}",
                )
        by = self._own_properties(self.join.by if self.join.by is not None else [part.name for part in required])
        if len(by) != len(required):
            _reject(
                f"searches {target.type_name}.{index.attribute} by {_count_text(by)}.",
                f"Name one property for each of {_list_names(required)}.",
            )
        return by

    # --- checks ------------------------------------------------------------------------------------------------

    def _own_properties(self, names: Iterable[str]) -> tuple[PropertySpec, ...]:
        """Return properties of the entity by name. `Entity` has checked that they exist."""
        return tuple(self.spec.properties[name] for name in names)

    def _check_values(self, target: EntitySpec, by: Sequence[PropertySpec], matched: Sequence[PropertySpec]) -> None:
        for own, part in zip(by, matched, strict=True):
            if own.codec is None:
                _reject(
                    f"joins {target.type_name} by {own.name}, which is no scalar.",
                    "Name a scalar property, or use RefMany for a list of ids.",
                )
            self._check_type(target, own.name, own.codec, part)

    def _check_type(self, target: EntitySpec, name: str, codec: Codec[object], part: PropertySpec) -> None:
        """Check that a property has the type of a target property, or of the source of a derived one."""
        source = target.properties[part.sources[0]].codec if part.search_function is not None else None
        if part.codec is not None and codec not in (part.codec, source):
            _reject(
                f"matches {target.type_name}.{part.name}, which is {part.codec.name}, with {name}, which is "
                f"{codec.name}.",
                "Give both properties the same type.",
            )


def _count_text(by: Sequence[PropertySpec]) -> str:
    if not by:
        return "no property"
    return f"{len(by)} propert{'y' if len(by) == 1 else 'ies'} ({_list_names(by)})"


def _list_names(parts: Iterable[PropertySpec]) -> str:
    return ", ".join(part.name for part in parts)
