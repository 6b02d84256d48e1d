"""Whether a caller may read what a field gives: decided before anything is read, as far as that can be."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import strawberry

from graphql_api.errors import EmptyKey, Forbidden, InvalidRecord, InvalidValue, KeyTooLong
from graphql_api.model import (
    Anyone,
    Catalog,
    Descending,
    Entity,
    EntitySpec,
    Group,
    IndexSpec,
    Owner,
    OwnerThrough,
    PropertySpec,
    Rule,
    Rules,
    SignedIn,
    UnionSpec,
    value_of,
)
from graphql_api.query import (
    PYTHON,
    Filter,
    SearchRequest,
    conjuncts,
    narrowed,
    property_in_filters,
    read_conditions,
    read_filter,
)
from graphql_api.schema.dataloaders import Path
from graphql_api.schema.graphql_names import property_name
from graphql_api.writes import Guard

log = logging.getLogger("shardql")

LookUp = Callable[[EntitySpec, Sequence[Any], Path], Awaitable[Entity | None]]
"""reads the record with these values of its primary key, whoever asks, for a field at this path"""


@dataclass(frozen=True, slots=True)
class Place:
    """A field of the answer: how its caller knows it, and where it stands."""

    name: str
    path: Path


def place_of(info: strawberry.Info[Any, Any]) -> Place:
    """The field that is being resolved."""
    path = info.path.as_list()
    of = "" if len(path) == 1 else f"{info._raw_info.parent_type.name}."  # noqa: SLF001 - its only way
    return Place(f"{of}{info.field_name}", path)


@dataclass(frozen=True, slots=True)
class Gate:
    """What one caller may read. `Forbidden` says whom a field is for, and never whether there is anything behind it."""

    catalog: Catalog
    subject: str | None
    groups: frozenset[str]
    look_up: LookUp
    trusted: bool = False
    """no rule stands in its way"""

    # --- searches ----------------------------------------------------------------------------------------------

    async def search(
        self,
        entity: EntitySpec,
        search: IndexSpec | UnionSpec,
        request: SearchRequest,
        shown: Collection[str],
        at: Place,
    ) -> SearchRequest:
        """The request as the caller may make it: where only owned records may be seen, it asks for those alone.

        `shown`: the properties that are selected, by Python names; `at`: the field.
        """
        rules = search.allow if search.allow is not None else entity.allow
        if rules is None and all(part.allow is None for part in entity.properties.values()):
            return request
        if self._standing(rules) is False:
            raise self._refusal(at.name, rules)
        self._check_shown(entity, shown)
        asked = read_filter(entity, request.filter, request.dialect)
        told = [part for part in _told_by(entity, search, asked, request) if self._standing(part.allow) is not True]
        for part in told:
            if self._standing(part.allow) is False:
                raise self._refusal(_called(entity, part), part.allow)
        request = self._with_owners(entity, request, shown)
        if not told and self._standing(rules):
            return request
        known = _known(entity, search, request, asked)
        if not self._standing(rules):
            owners = await self._owners(rules or (), known, at)
            request = self._with_only(request, owners)
            known = {**known, owners[0]: self.subject} if len(owners) == 1 else known
        for part in told:
            if not await self._owns(part.allow, known, at):
                raise self._refusal(_called(entity, part), part.allow, known)
        return request

    async def _owners(self, rules: Rules, known: Mapping[str, Any], at: Place) -> Sequence[str]:
        """The properties one of which must name the caller in every record that is seen; none where all may be seen."""
        if await self._owns(rules, known, at):
            return ()
        owners = {rule.property: rule for rule in rules if isinstance(rule, Owner) and rule.property not in known}
        if not owners:
            raise self._refusal(at.name, rules, known)
        return [*owners]

    def _with_only(self, request: SearchRequest, owners: Sequence[str]) -> SearchRequest:
        """The same search for records of which one of these properties names the caller."""
        if not owners:
            return request
        tests = [{property_in_filters(PYTHON, name): {"eq": self.subject}} for name in owners]
        return replace(request, only={"or": tests} if len(tests) > 1 else tests[0])

    def _with_owners(self, entity: EntitySpec, request: SearchRequest, shown: Iterable[str]) -> SearchRequest:
        """The request with what has to be known of each record in order to show the properties that are its owner's."""
        if request.select is None:
            return request
        needed = [
            name
            for part in map(entity.properties.__getitem__, shown)
            if self._standing(part.allow) is None
            for name in naming(part.allow)
        ]
        return replace(request, select=frozenset({*request.select, *needed})) if needed else request

    # --- records by key ----------------------------------------------------------------------------------------

    async def read(
        self,
        entity: EntitySpec,
        known: Mapping[str, Any],
        read: Callable[[], Awaitable[Entity | None]],
        shown: Collection[str],
        at: Place,
    ) -> Entity | None:
        """What `read` finds, if the caller may see it; that of somebody else is refused as one that is not there.

        `known`: the values of its key, as far as they are given.
        """
        rules, standing = entity.allow, self._standing(entity.allow)
        if standing is False:
            raise self._refusal(at.name, rules)
        self._check_shown(entity, shown)
        if standing or await self._owns(rules, known, at):
            return await read()
        if naming(rules) <= known.keys():
            raise self._refusal(at.name, rules)
        record = await read()
        if record is None or not await self._owns(rules, _values(record), at):
            raise self._refusal(at.name, rules)
        return record

    # --- properties --------------------------------------------------------------------------------------------

    async def show(self, entity: EntitySpec, parts: Iterable[PropertySpec], record: Any, at: Place) -> None:
        """Refuses unless the caller may see these properties of a record."""
        for part in parts:
            if part.allow is not None and not (
                self._standing(part.allow) or await self._owns(part.allow, _values(record), at)
            ):
                raise self._refusal(_called(entity, part), part.allow)

    def _check_shown(self, entity: EntitySpec, shown: Iterable[str]) -> None:
        for part in map(entity.properties.__getitem__, sorted(shown)):
            if self._standing(part.allow) is False:
                raise self._refusal(_called(entity, part), part.allow)

    # --- writes ------------------------------------------------------------------------------------------------

    def may_write(self, entity: EntitySpec, shown: Collection[str] | None, at: Place) -> None:
        """Refuses, before anything is read, whoever may not write or may not see what the answer shows.

        `shown`: the properties of the record that are selected, by Python names; None: the record is not.
        """
        if self._standing(entity.writers) is False:
            raise self._refusal(at.name, entity.writers)
        if shown is not None:
            if self._standing(entity.allow) is False:
                raise self._refusal(f"{at.name} with {entity.type_name} in its answer", entity.allow)
            self._check_shown(entity, shown)

    def guard(self, entity: EntitySpec, written: Collection[str], at: Place, *, whole: bool = False) -> Guard | None:
        """What has to hold of the record before and after a write of these properties; None where nothing has to.

        `whole`: they are written whether they are given or not. `Forbidden` names a property that the caller may never
        see, and so may not write. A record that is not there is refused in the words for that of somebody else.
        """
        parts = [entity.properties[name] for name in sorted(written)]
        instead = f"{at.name} writes it in any case, so change the record by an update" if whole else None
        for part in parts:
            if self._standing(part.allow) is False:
                raise self._refusal(_called(entity, part), part.allow, instead=instead)
        named = [(at.name, entity.writers, None), *((_called(entity, part), part.allow, instead) for part in parts)]
        asked = [one for one in named if not self._standing(one[1])]
        if not asked:
            return None

        let_in: list[Entity] = []

        async def guard(old: Entity | None, new: Entity | None) -> None:
            for record in (old, new):
                if record is None or any(record is known for known in let_in):
                    continue
                for what, rules, remedy in asked:
                    if not await self._owns(rules, _values(record), at):
                        raise self._refusal(what, rules, instead=remedy)
                let_in.append(record)

        return guard

    def not_written(self, entity: EntitySpec, at: Place) -> Forbidden:
        """What is told of a record that is not there, where only some may write those that are."""
        return self._refusal(at.name, entity.writers)

    # --- rules -------------------------------------------------------------------------------------------------

    def _standing(self, rules: Rules | None) -> bool | None:
        """Whether the rules let the caller in; None where it depends on the record."""
        if rules is None or self.trusted or any(self._is_met(rule) for rule in rules):
            return True
        return None if self.subject and naming(rules) else False

    def _is_met(self, rule: object) -> bool:
        match rule:
            case Anyone():
                return True
            case SignedIn():
                return bool(self.subject)
            case Group(names):
                return not self.groups.isdisjoint(names)
        return False

    async def _owns(self, rules: Rules | None, values: Mapping[str, Any], at: Place) -> bool:
        """Whether the caller owns what has these values, as far as they tell."""
        if not self.subject:
            return False
        for rule in rules or ():
            if isinstance(rule, Owner) and values.get(rule.property) == self.subject:
                return True
        through = [
            self._owns_through(rule, values[rule.of], at)
            for rule in rules or ()
            if isinstance(rule, OwnerThrough) and values.get(rule.of) is not None
        ]
        return bool(through) and any(await asyncio.gather(*through))

    async def _owns_through(self, rule: OwnerThrough, value: Any, at: Place) -> bool:
        entity = self.catalog.entity(rule.entity)
        key = [value, self.subject] if entity.sub_ids else [value]
        try:
            found = await self.look_up(entity, key, at.path)
        except (EmptyKey, KeyTooLong, InvalidValue):
            return False  # No record can have such a key.
        except InvalidRecord as problem:
            log.warning("Nobody owns what a broken record tells of: %s", problem.message)
            return False
        return found is not None and bool(value_of(found, rule.owner) == self.subject)

    def _refusal(
        self,
        what: str,
        rules: Rules | None,
        known: Mapping[str, Any] | None = None,
        *,
        instead: str | None = None,
    ) -> Forbidden:
        """`known`: of a search, what it asks for: it may be let in where it asks for more. `instead`: what to do."""
        whom = dict.fromkeys(map(in_words, rules or ()))
        if not whom:
            return Forbidden(f"{what} is for nobody: {instead or 'leave it out'}.")
        lacking = [rule.of for rule in rules or () if isinstance(rule, OwnerThrough)]
        if not self.subject:
            remedy = "sign in"
        elif instead is not None:
            remedy = instead
        elif known is not None and lacking and lacking[0] not in known:
            remedy = f"ask for one {property_name(lacking[0])} that is yours"
        elif naming(rules):
            remedy = "ask for what is yours"
        else:
            remedy = "leave it out, or have yourself made one of them"
        return Forbidden(f"{what} is for {' or '.join(whom)}: {remedy}.")


def naming(rules: Rules | None) -> frozenset[str]:
    """The properties of a record that tell who owns it."""
    owners = {rule.property for rule in rules or () if isinstance(rule, Owner)}
    return frozenset(owners | {rule.of for rule in rules or () if isinstance(rule, OwnerThrough)})


def in_words(rule: Rule) -> str:
    """Whom a rule lets in."""
    match rule:
        case Anyone():
            return "everyone"
        case SignedIn():
            return "those who are signed in"
        case Group(names):
            return f"members of {' or '.join(names)}"
        case Owner(name):
            return f"those whom {property_name(name)} names"
        case OwnerThrough(entity, of, _):
            return f"those whom {entity} names as owners of {property_name(of)}"


def _called(entity: EntitySpec, part: PropertySpec) -> str:
    return f"{entity.type_name}.{property_name(part.name)}"


def _values(record: Any) -> Mapping[str, Any]:
    """What is known of a record; whose owner is not known, nobody owns."""
    return getattr(record, "__dict__", {})


def _told_by(
    entity: EntitySpec, search: IndexSpec | UnionSpec, filter: Filter | None, request: SearchRequest
) -> Iterable[PropertySpec]:
    """The properties of whose values a search tells something by what it finds, and in which order."""
    names = set() if filter is None else {*filter.properties}
    for index in search.members if isinstance(search, UnionSpec) else (search,):
        names |= {part.name for part in (*index.hash, *index.range_parts)}
    order = request.order_by.property if isinstance(request.order_by, Descending) else request.order_by
    return [part for part in entity.properties.values() if part.name in {*names, order}]


def _known(
    entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest, filter: Filter | None
) -> Mapping[str, Any]:
    """The properties that have one value in every answer."""
    first, *others = (
        narrowed(index, read_conditions(entity, index, request.arguments, request.dialect), conjuncts(filter)).known
        for index in (search.members if isinstance(search, UnionSpec) else (search,))
    )
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }
