"""Authorization of records and properties. Whatever needs no record is decided before anything is read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import strawberry

from graphql_api.errors import EmptyKey, Forbidden, InvalidRecord, InvalidValue, KeyTooLong
from graphql_api.model import (
    Catalog,
    Descending,
    Entity,
    EntitySpec,
    ForeignKeySpec,
    IndexSpec,
    Owner,
    OwnerThrough,
    PropertySpec,
    Rules,
    UnionSpec,
    value_of,
)
from graphql_api.query import (
    PYTHON_NAMES,
    Filter,
    SearchRequest,
    accepts_empty_text,
    conjuncts,
    filter_property_name,
    narrow_range_by_filter,
    parse_conditions,
    parse_filter,
)
from graphql_api.schema.dataloaders import Dataloaders, Path
from graphql_api.schema.graphql_names import property_name
from graphql_api.schema.rule_decisions import decide_without_record, describe_rule, ownership_properties
from graphql_api.writes import ReferenceGuard, WriteGuard

log = logging.getLogger("shardql")


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """A field of the response: its name for error messages, and its path."""

    name: str
    path: Path


def field_location(info: strawberry.Info[Any, Any]) -> FieldLocation:
    """Return the location of the field that is being resolved."""
    path = info.path.as_list()
    parent = "" if len(path) == 1 else f"{info._raw_info.parent_type.name}."  # noqa: SLF001 - no public API
    return FieldLocation(f"{parent}{info.field_name}", path)


@dataclass(frozen=True, slots=True)
class AuthorizationPolicy:
    """The rules of a catalog, applied to one caller.

    `Forbidden` names the principals that are allowed, and never reveals whether a record exists.
    """

    catalog: Catalog
    subject: str | None
    groups: frozenset[str]
    dataloaders: Dataloaders
    trusted: bool = False
    """No rule applies to the caller."""

    # --- searches ----------------------------------------------------------------------------------------------

    def may_restrict(self, entity: EntitySpec, search: IndexSpec | UnionSpec | None) -> bool:
        """Return whether a search, or without one a read by key, needs a decision at all."""
        rules = entity.allow if search is None or search.allow is None else search.allow
        return rules is not None or entity.has_property_rules

    async def restrict_search(
        self,
        entity: EntitySpec,
        search: IndexSpec | UnionSpec,
        request: SearchRequest,
        selected: Collection[str],
        location: FieldLocation,
    ) -> SearchRequest:
        """Return the request, restricted to the caller's own records if the rules allow only those."""
        if not self.may_restrict(entity, search):
            return request
        rules = search.allow if search.allow is not None else entity.allow
        allowed = self._check(location.name, rules)
        self._check_selected(entity, selected)
        filter = parse_filter(entity, request.filter, request.naming)
        revealing = self._revealing_properties(entity, search, filter, request)
        if request.select is not None:
            # Add the properties that determine the owner, if selected properties are allowed only for the owner.
            rules_of_selected = [entity.properties[name].allow for name in selected]
            undecided = [rules for rules in rules_of_selected if self._decide_without_record(rules) is None]
            request = replace(request, select=frozenset(request.select).union(*map(ownership_properties, undecided)))
        if not revealing and allowed:
            return request
        fixed = _fixed_values(entity, search, request, filter)
        if not allowed:
            owners = await self._required_owners(rules or (), fixed, location)
            tests = [{filter_property_name(PYTHON_NAMES, name): {"eq": self.subject}} for name in owners]
            if tests:
                request = replace(request, enforced_filter={"or": tests} if len(tests) > 1 else tests[0])
            fixed = {**fixed, owners[0]: self.subject} if len(owners) == 1 else fixed
        for part in revealing:
            if not await self._is_owner(part.allow, fixed, location):
                raise self.forbidden(_qualified_name(entity, part), part.allow, fixed_values=fixed)
        return request

    def _revealing_properties(
        self, entity: EntitySpec, search: IndexSpec | UnionSpec, filter: Filter | None, request: SearchRequest
    ) -> list[PropertySpec]:
        """Return what only owners may read and a caller could infer from the results of a search, or their order."""
        order = request.order_by.property if isinstance(request.order_by, Descending) else request.order_by
        names = {order, *(filter.properties if filter is not None else ())}
        for index in search.members if isinstance(search, UnionSpec) else (search,):
            names |= {part.name for part in (*index.hash, *index.range_properties)}
        parts = [part for part in entity.properties.values() if part.name in names]
        return [part for part in parts if not self._check(_qualified_name(entity, part), part.allow)]

    async def _required_owners(
        self, rules: Rules, fixed_values: Mapping[str, Any], location: FieldLocation
    ) -> Sequence[str]:
        """Return the properties of which one must name the caller in each result; none if all results are allowed."""
        if await self._is_owner(rules, fixed_values, location):
            return ()
        owners = [rule.property for rule in rules if isinstance(rule, Owner) and rule.property not in fixed_values]
        if not owners:
            raise self.forbidden(location.name, rules, fixed_values=fixed_values)
        return [*dict.fromkeys(owners)]

    # --- records by key ----------------------------------------------------------------------------------------

    async def read_if_allowed(
        self,
        entity: EntitySpec,
        key_values: Mapping[str, Any],
        read: Callable[[], Awaitable[Entity | None]],
        selected: Collection[str],
        location: FieldLocation,
        revealed: Sequence[PropertySpec] = (),
    ) -> Entity | None:
        """Return the record from `read` if the caller may read it.

        A record of another owner and a record that does not exist raise the same error. `key_values`: the provided
        values of the key. `revealed`: properties whose values the result reveals, whatever is selected.
        """
        checks = [(location.name, entity.allow), *((_qualified_name(entity, part), part.allow) for part in revealed)]
        undecided = [check for check in checks if not self._check(*check)]
        self._check_selected(entity, selected)
        undecided = [check for check in undecided if not await self._is_owner(check[1], key_values, location)]
        for what, rules in undecided:
            if ownership_properties(rules) <= key_values.keys():
                raise self.forbidden(what, rules)
        record = await read()
        for what, rules in undecided:
            if record is None or not await self._is_owner(rules, _loaded_values(record), location):
                raise self.forbidden(what, rules)
        return record

    # --- properties --------------------------------------------------------------------------------------------

    async def check_readable(
        self, entity: EntitySpec, parts: Iterable[PropertySpec], record: Any, location: FieldLocation
    ) -> None:
        """Raise `Forbidden` unless the caller may read these properties of a record."""
        for part in parts:
            if not self._decide_without_record(part.allow) and not await self._is_owner(
                part.allow, _loaded_values(record), location
            ):
                raise self.forbidden(_qualified_name(entity, part), part.allow)

    def _check_selected(self, entity: EntitySpec, selected: Iterable[str]) -> None:
        for name in sorted(selected):
            self._check(_qualified_name(entity, entity.properties[name]), entity.properties[name].allow)

    # --- writes ------------------------------------------------------------------------------------------------

    def check_write(self, entity: EntitySpec, selected: Collection[str] | None, location: FieldLocation) -> None:
        """Raise `Forbidden` if the caller may never write the entity, or may never read what the mutation selects.

        Reads nothing. `selected`: Python names of the selected properties; None if the record is not selected.
        """
        self._check(location.name, entity.write_rules)
        if selected is not None:
            self._check(f"{location.name} with {entity.type_name} in its response", entity.allow)
            self._check_selected(entity, selected)

    def write_guard(
        self, entity: EntitySpec, written: Collection[str], location: FieldLocation, *, whole: bool = False
    ) -> WriteGuard | None:
        """Return the check of the record before and after a write of these properties; None if all records pass.

        A property that the caller may not read must not be written either. `whole`: the mutation writes all properties,
        provided or not. A record that does not exist and a record of another owner raise the same error.
        """
        parts = [entity.properties[name] for name in sorted(written)]
        remedy = f"{location.name} always writes it. Use an update instead" if whole else None
        checks = [(_qualified_name(entity, part), part.allow, remedy) for part in parts]
        open_checks = [check for check in checks if not self._check(*check)]
        if not self._decide_without_record(entity.write_rules):
            open_checks.insert(0, (location.name, entity.write_rules, None))
        if not open_checks:
            return None
        allowed: list[Entity] = []

        async def guard(old: Entity | None, new: Entity | None) -> None:
            for record in (old, new):
                if record is None or any(record is known for known in allowed):
                    continue
                for what, rules, remedy in open_checks:
                    if not await self._is_owner(rules, _loaded_values(record), location):
                        raise self.forbidden(what, rules, remedy)
                allowed.append(record)

        return guard

    def reference_guard(self, entity: EntitySpec, location: FieldLocation) -> ReferenceGuard | None:
        """Return the check of the records that a write references; None if the caller may reference all of them.

        A record that the caller may not reference and a record that does not exist raise the same error.
        """
        checks = [key for key in entity.foreign_keys if not self._decide_without_record(key.allow)]

        async def guard(old: Entity | None, new: Entity) -> None:
            for key in checks:
                values, old_values = (
                    None if record is None else [value_of(record, part.name) for part in key.by]
                    for record in (new, old)
                )
                if values is not None and None not in values and values != old_values:
                    await self._check_reference(entity, key, values, new, location)

        return guard if checks else None

    async def _check_reference(
        self, entity: EntitySpec, key: ForeignKeySpec, values: Sequence[Any], new: Entity, location: FieldLocation
    ) -> None:
        parent, rules = key.parent, key.allow
        by = " and ".join(property_name(part.name) for part in key.by)
        what = f"A reference to {parent.type_name} by {by}"
        self._check(what, rules)
        known: Mapping[str, Any] = dict(zip((part.name for part in parent.ids), values, strict=True))
        if await self._is_owner(rules, known, location):
            return
        if parent.name == entity.name and all(value_of(new, name) == value for name, value in known.items()):
            known = _loaded_values(new)  # The record references itself.
        elif not ownership_properties(rules) <= known.keys():
            why = f"An access lookup: {by} references a {parent.type_name}."
            known = _loaded_values(await self._load_for_access(parent, values, location, why))
        if not await self._is_owner(rules, known, location):
            raise self.forbidden(what, rules, f"Reference a {parent.type_name} that you may read")

    def readable_children(self, entity: EntitySpec) -> frozenset[str] | None:
        """Return the entities that reference this one and whose records the caller may read; None: without rules."""
        if self.trusted:
            return None
        return frozenset(child.name for child in entity.children if self._decide_without_record(child.allow))

    # --- rules -------------------------------------------------------------------------------------------------

    def _check(self, what: str, rules: Rules | None, remedy: str | None = None) -> bool:
        """Return whether the rules allow the caller for all records; raise `Forbidden` if for none."""
        decision = self._decide_without_record(rules)
        if decision is False:
            raise self.forbidden(what, rules, remedy)
        return bool(decision)

    def _decide_without_record(self, rules: Rules | None) -> bool | None:
        """Return whether the rules allow the caller; None if that depends on the record."""
        return True if self.trusted else decide_without_record(rules, self.subject, self.groups)

    async def _is_owner(self, rules: Rules | None, values: Mapping[str, Any], location: FieldLocation) -> bool:
        """Return whether these values prove that the caller owns the record."""
        if not self.subject:
            return False
        if any(isinstance(rule, Owner) and values.get(rule.property) == self.subject for rule in rules or ()):
            return True
        through = [
            self._is_owner_through(rule, values[rule.of], location)
            for rule in rules or ()
            if isinstance(rule, OwnerThrough) and values.get(rule.of) is not None
        ]
        return bool(through) and any(await asyncio.gather(*through))

    async def _is_owner_through(self, rule: OwnerThrough, value: Any, location: FieldLocation) -> bool:
        entity = self.catalog.entity(rule.entity)
        key = [value, self.subject] if entity.sub_ids else [value]
        why = f"An access lookup: {entity.type_name} records name the owners."
        record = await self._load_for_access(entity, key, location, why)
        return record is not None and bool(value_of(record, rule.owner) == self.subject)

    async def _load_for_access(
        self, entity: EntitySpec, key: Sequence[Any], location: FieldLocation, why: str
    ) -> Entity | None:
        """Load a record that decides about access. Return None if it does not exist, or is invalid."""
        try:
            return await self.dataloaders.load_record(entity, key, location.path, consistent=True, why=why)
        except (EmptyKey, KeyTooLong, InvalidValue):
            return None  # No record can have such a key.
        except InvalidRecord as problem:
            log.warning("Access denied because the record that decides about it is invalid: %s", problem.message)
            return None

    def forbidden(
        self,
        what: str,
        rules: Rules | None,
        remedy: str | None = None,
        *,
        fixed_values: Mapping[str, Any] | None = None,
    ) -> Forbidden:
        """Return the error for something that the rules do not allow. It depends on no stored record.

        `fixed_values`: those of the search that is refused. `remedy`: what an authenticated caller can do instead.
        """
        allowed = dict.fromkeys(map(describe_rule, rules or ()))
        if not allowed:
            return Forbidden(f"{what} is not allowed for any caller. {remedy or 'Omit it'}.")
        parent = next((rule.of for rule in rules or () if isinstance(rule, OwnerThrough)), None)
        if not self.subject:
            remedy = "Sign in"
        elif remedy is None and fixed_values is not None and parent is not None and parent not in fixed_values:
            remedy = f"Request one {property_name(parent)} that you own"
        elif remedy is None:
            remedy = "Request your own records" if ownership_properties(rules) else "Omit it, or request membership"
        return Forbidden(f"{what} is allowed only for {' or '.join(allowed)}. {remedy}.")


def _qualified_name(entity: EntitySpec, part: PropertySpec) -> str:
    return f"{entity.type_name}.{property_name(part.name)}"


def _loaded_values(record: Any) -> Mapping[str, Any]:
    """Return the loaded values. If the owner property is not loaded, the record counts as not owned."""
    return getattr(record, "__dict__", {})


def _fixed_values(
    entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest, filter: Filter | None
) -> Mapping[str, Any]:
    """Return the properties that have one value in all results, with this value."""
    indexes = search.members if isinstance(search, UnionSpec) else (search,)
    in_union = accepts_empty_text(indexes)
    first, *others = (
        narrow_range_by_filter(
            index,
            parse_conditions(entity, index, request.arguments, request.naming, in_union=in_union),
            conjuncts(filter),
        ).known
        for index in indexes
    )
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }
