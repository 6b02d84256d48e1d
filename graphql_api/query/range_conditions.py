"""Parse the arguments of a search into hash values and one range of the index."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from graphql_api.codecs import (
    Between,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    encoded_range,
    parse_composite_id,
    parse_id_prefix,
    parse_leading_id_parts,
    raw_range,
    short_repr,
)
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidRange,
    InvalidValue,
    KeyTooLong,
    MissingArgument,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec
from graphql_api.query.argument_values import parse_id, refuse_empty_key, search_value
from graphql_api.query.search_request import CONDITION_ARGUMENTS, PAGING_ARGUMENTS, PYTHON_NAMES, NamingScheme

HashValues = tuple[tuple[str, str], ...]
"""stored name and encoded value of each hash property"""


@dataclass(frozen=True, slots=True)
class IndexConditions:
    """The parsed arguments of a search of one index."""

    hash_values: tuple[HashValues, ...]
    """the hash properties of a match have the values of one of these, which are distinct and sorted"""
    range: KeyRange
    known: Mapping[str, Any]
    """properties that have one value in every match"""
    bounds: Mapping[str, tuple[Any | None, Any | None]]
    """properties that lie between two values in every match"""
    description: str
    sort: tuple[Condition, ...] | None = None
    """conditions on the first sort properties; None for conditions on a composite sub id as one text"""
    id_prefix: tuple[Condition, ...] = ()
    """exact conditions on the properties before the sort properties"""

    def range_of(self, index: IndexSpec, sort: Sequence[Condition]) -> KeyRange:
        """Return the range for other conditions on the sort properties; the same range if no key can meet them."""
        try:
            return _index_range(index, [*self.id_prefix, *sort])
        except (KeyTooLong, EmptyKey):
            return self.range


def accepts_empty_text(indexes: Sequence[IndexSpec]) -> bool:
    """Return whether one of several indexes can hold an empty text in its keys, so that a search for it is valid."""
    return len(indexes) > 1 and not all(index.raw for index in indexes)


_NO_KEY = KeyRange("", "", low_open=True)


@dataclass(frozen=True, slots=True)
class ConditionArguments:
    """The names of the arguments for conditions on the sort properties of one index."""

    shorthand: Mapping[str, str]
    """CONDITION_ARGUMENTS by their names"""
    sort: Mapping[str, PropertySpec]
    """the sort properties by the names of their arguments, in order"""

    @classmethod
    def of(cls, index: IndexSpec, naming: NamingScheme) -> "ConditionArguments":
        shorthand = {naming.common_argument(name): name for name in CONDITION_ARGUMENTS}
        return cls(shorthand, {naming.property_argument(part.property.name): part.property for part in index.sort})


def parse_conditions(
    entity: EntitySpec,
    index: IndexSpec,
    arguments: Mapping[str, Any],
    naming: NamingScheme = PYTHON_NAMES,
    *,
    in_union: bool = False,
    names: ConditionArguments | None = None,
) -> IndexConditions:
    """Check all arguments and convert them to one range, the same for every shard.

    `in_union`: other indexes can hold an empty text, so that one with plain keys has an empty range for it.
    `names`: those of the index, if they are known.
    """
    remaining = dict(arguments)
    if "from" in remaining and naming.common_argument("from_") == "from_":
        if "from_" in remaining:
            raise ConflictingArguments("from and from_ are the same argument: provide it once.", argument="from_")
        remaining["from_"] = remaining.pop("from")
    return _ConditionParser(
        entity, index, naming, remaining, in_union, names or ConditionArguments.of(index, naming)
    ).parse()


@dataclass(slots=True)
class _ConditionParser:
    """Consume the arguments of a search of one index one by one, and collect what is known from them."""

    entity: EntitySpec
    index: IndexSpec
    naming: NamingScheme
    remaining: dict[str, Any]
    """arguments that are not consumed yet; any argument left at the end is unknown"""
    in_union: bool
    names: ConditionArguments
    known: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, tuple[Any | None, Any | None]] = field(default_factory=dict)
    descriptions: list[str] = field(default_factory=list)
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    """for arguments that were derived from others, those that hold the lower and the upper bound"""

    def parse(self) -> IndexConditions:
        index, common = self.index, self.naming.common_argument
        self._expand_id()
        hash_values = self._take_hash_values()
        id_prefix = tuple(Eq(self._take_exact(part)) for part in index.id_prefix)
        sort_parts = self.names.sort
        shorthand, by_argument = {}, {}
        if self.remaining:
            shorthand = self._take_all(self.names.shorthand)
            by_argument = self._take_all({name: name for name in sort_parts})
            self._refuse_unknown(sort_parts)
        self._refuse_conflicts(shorthand, by_argument, sort_parts)
        sort: tuple[Condition, ...] | None = None
        if shorthand and self._has_composite_sort:
            key_range = self._composite_range(id_prefix, shorthand)
        else:
            requested = {name: _parse_condition(name, value) for name, value in by_argument.items()}
            if shorthand:
                name, condition = next(iter(sort_parts)), _parse_shorthand(shorthand)
                low = common(next(iter(shorthand)))
                self.sources[name] = low, "to" if isinstance(condition, Between) else low
                requested = {name: condition, **requested}
            sort = self._sort_conditions(requested, sort_parts)
            key_range = self._key_range(id_prefix, sort, [*requested])
            if sort and isinstance(last := sort[-1], Between) and None not in (last.low, last.high):
                codec = self.index.sort[len(sort) - 1].column.codec
                argument = self._source_of([*requested][-1])
                _refuse_empty_range(key_range, argument, codec.format(last.low), codec.format(last.high))
        description = ", ".join(self.descriptions)
        return IndexConditions(hash_values, key_range, self.known, self.bounds, description, sort, id_prefix)

    # --- which arguments ---------------------------------------------------------------------------------------

    @property
    def _search_name(self) -> str:
        return self.naming.search_name(self.entity, self.index)

    @property
    def _has_composite_sort(self) -> bool:
        """Whether shorthand conditions apply to several sort properties as one text."""
        return self.index.is_primary and len(self.index.sort) > 1

    def _argument_of(self, part: PropertySpec) -> str:
        return self.naming.property_argument(part.name)

    def _source_of(self, argument: str) -> str:
        """Return the argument as the caller provided it, for error messages."""
        return self.sources.get(argument, (argument,))[0]

    def _take_all(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Consume the arguments with these names, and return those that were provided by their new names."""
        remaining = self.remaining
        taken = {new: remaining.pop(name) for name, new in names.items() if name in remaining}
        return {name: value for name, value in taken.items() if value is not None}

    def _take_hash_values(self) -> tuple[HashValues, ...]:
        """Consume the values of the hash properties. One of them may have several, as a list."""
        listed: str | None = None
        choices: list[list[tuple[str, str]]] = []
        for part in self.index.hash:
            argument = self._argument_of(part)
            if self.remaining.get(argument) is None:
                name = self.naming.list_argument(self.entity, part.name)
                values = self.remaining.pop(name, None)
                if values is not None:
                    if listed is not None:
                        raise ConflictingArguments(
                            f"{listed} and {name} are both lists: give one value for one of them.", argument=name
                        )
                    listed = name
                    choices.append([(part.stored, value) for value in self._check_list(name, part, values)])
                    continue
            choices.append([(part.stored, part.column.encode(self._take_exact(part)))])
        return tuple(product(*choices))

    def _check_list(self, argument: str, part: PropertySpec, values: Any) -> list[str]:
        """Check the values of a list, and return them encoded, without duplicates, in ascending order."""
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise InvalidValue(f"{argument} is a list of values, not {short_repr(values)}.", argument=argument)
        checked = {}
        for value in values:
            one = self._check(argument, part, value)
            refuse_empty_key(argument, one)
            checked[part.column.encode(one)] = one
        if len(checked) == 1:
            (self.known[part.name],) = checked.values()
        formatted = ", ".join(f'"{part.column.codec.format(checked[encoded])}"' for encoded in sorted(checked))
        self.descriptions.append(f"{part.stored} in [{formatted}]")
        return sorted(checked)

    def _take_exact(self, part: PropertySpec) -> Any:
        """Consume the exact value of a property that every search of the index needs."""
        argument = self._argument_of(part)
        value = self.remaining.pop(argument, None)
        argument = self._source_of(argument)
        if isinstance(value, Mapping) and set(value) == {"eq"}:
            value = value["eq"]
        if isinstance(value, Eq):
            value = value.value
        if value is None:
            several = f", or {self.naming.list_argument(self.entity, part.name)}" if part in self.index.hash else ""
            raise MissingArgument(
                f"{self._search_name} is searched for one {argument}: give it{several}.", argument=argument
            )
        checked = self.known[part.name] = self._check(argument, part, value)
        refuse_empty_key(argument, checked)
        self.descriptions.append(_describe_condition(part, Eq(checked)))
        return checked

    def _check(self, argument: str, part: PropertySpec, value: Any) -> Any:
        with about(argument):
            return search_value(self.entity, part, value)

    def _expand_id(self) -> None:
        """Replace `id` of a search by_id with the id properties: `id="prod/orders"`.

        A property of the entity that is itself called `id` takes precedence.
        """
        entity = self.entity
        if self.remaining.get("id") is None or not self.index.is_primary:
            return
        if "id" in map(self.naming.property_name, entity.properties):
            return
        for part, value in zip(entity.ids, parse_id(entity, self.remaining.pop("id")), strict=True):
            argument = self._argument_of(part)
            if self.remaining.get(argument) is not None:
                raise ConflictingArguments(
                    f"id and {argument} ask for the same property: give one of them.", argument="id"
                )
            self.remaining[argument] = Eq(value)
            self.sources[argument] = "id", "id"

    def _refuse_unknown(self, sort_parts: Mapping[str, PropertySpec]) -> None:
        if not self.remaining:
            return
        unknown, common = next(iter(self.remaining)), self.naming.common_argument
        lists = {self.naming.list_argument(self.entity, part.name): self._argument_of(part) for part in self.index.hash}
        if unknown in lists:
            raise ConflictingArguments(
                f"{lists[unknown]} and {unknown} exclude each other: give one of them.", argument=unknown
            )
        accepted = [self._argument_of(part) for part in self.index.required]
        accepted += [*lists, *sort_parts, *map(common, CONDITION_ARGUMENTS)]
        hint = nearest(unknown, [*accepted, *map(common, sorted(PAGING_ARGUMENTS))])
        raise UnknownArgument(
            f"{self._search_name} takes no argument {unknown!r}.{hint} It takes {', '.join(accepted)}.",
            argument=unknown,
        )

    def _refuse_conflicts(
        self, shorthand: Mapping[str, Any], by_argument: Mapping[str, Any], sort_parts: Mapping[str, PropertySpec]
    ) -> None:
        """Refuse two kinds of shorthand, two conditions on one property, and shorthand without a sort property."""
        if not shorthand:
            return
        common = self.naming.common_argument
        kinds = [name for name in ("eq", "prefix") if name in shorthand]
        if "from_" in shorthand or "to" in shorthand:
            kinds.append(f"{common('from_')}/to")
        if len(kinds) > 1:
            raise ConflictingArguments(
                f"{' and '.join(kinds)} exclude each other: give one of them.", argument=kinds[0]
            )
        argument = common(next(iter(shorthand)))
        covered = [*sort_parts] if self._has_composite_sort else [*sort_parts][:1]
        duplicate = next((self._source_of(name) for name in covered if name in by_argument), None)
        if duplicate is not None:
            raise ConflictingArguments(
                f"{argument} and {duplicate} ask for the same property: give one of them.", argument=argument
            )
        if not sort_parts:
            raise UnknownArgument(
                f"{argument} applies to a sort property, and {self._search_name} has none: omit it.", argument=argument
            )

    # --- conditions on the sort properties ---------------------------------------------------------------------

    def _sort_conditions(
        self, requested: Mapping[str, Condition], sort_parts: Mapping[str, PropertySpec]
    ) -> tuple[Condition, ...]:
        """Return the checked conditions in index order: no gaps, and all but the last one exact."""
        conditions: list[Condition] = []
        names = [*sort_parts]
        for at, (argument, part) in enumerate(sort_parts.items()):
            if argument not in requested:
                later = next((name for name in names[at:] if name in requested), None)
                if later is not None:
                    raise MissingArgument(
                        f"{later} can be used only after one exact {argument}: the index is ordered by "
                        f"{', '.join(names)}.",
                        argument=later,
                    )
                break
            if conditions and not isinstance(conditions[-1], Eq):
                raise ConflictingArguments(
                    f"{argument} can be used only after one exact {names[at - 1]}: use eq there, or "
                    f"leave {argument} out.",
                    argument=argument,
                )
            conditions.append(self._check_condition(part, requested[argument], argument))
            self.descriptions.append(_describe_condition(part, conditions[-1]))
        return tuple(conditions)

    def _check_condition(self, part: PropertySpec, condition: Condition, name: str) -> Condition:
        argument, high_argument = self.sources.get(name, (name, name))
        if isinstance(condition, Eq):
            value = self._check(argument, part, condition.value)
            if (self.index.raw and not self.in_union) or part in self.entity.primary_key:
                refuse_empty_key(argument, value)
            self.known[part.name] = value
            return Eq(value)
        if isinstance(condition, Prefix):
            text, codec, name = condition.text, part.column.codec, self.naming.property_name(part.name)
            with about(argument):
                if codec.kind != "text":
                    raise InvalidValue(f"{name} is {codec.name}, and only texts have prefixes: use eq, or from and to.")
                if not isinstance(text, str):
                    raise InvalidValue(f"a prefix is a text, not {short_repr(text)}: pass the first characters.")
            return Prefix(self._check(argument, part, text))
        low = None if condition.low is None else self._check(argument, part, condition.low)
        high = None if condition.high is None else self._check(high_argument, part, condition.high)
        self.bounds[part.name] = (low, high)
        return Between(low, high)

    # --- the range ---------------------------------------------------------------------------------------------

    def _key_range(
        self, id_prefix: Sequence[Condition], sort: Sequence[Condition], requested: Sequence[str]
    ) -> KeyRange:
        """Return one range for all conditions. If the key is too long, the error names the argument that made it so."""
        whole = [*id_prefix, *sort]
        try:
            return _index_range(self.index, whole)
        except (KeyTooLong, EmptyKey) as problem:
            if self.in_union and isinstance(problem, EmptyKey):
                return _NO_KEY
            # In the order in which the arguments extend the key; the upper bound of a range is last.
            arguments = [self._argument_of(part) for part in self.index.id_prefix]
            arguments += [*map(self._source_of, requested)]
            arguments += [self.sources.get(name, (name,))[-1] for name in requested[-1:]]
            for count, argument in enumerate(arguments, 1):
                conditions = whole[:count]
                if count <= len(whole) and isinstance(last := conditions[-1], Between):
                    conditions[-1] = Between(last.low, None)
                with about(argument):
                    _index_range(self.index, conditions)
            raise

    def _composite_range(self, id_prefix: Sequence[Condition], shorthand: Mapping[str, Any]) -> KeyRange:
        """Return the range for shorthand on a composite sub id; `prefix="electronics/"` is an exact first part."""
        condition = _parse_shorthand(shorthand)
        if not isinstance(condition, Between):
            return self._range_of_text(id_prefix, *next(iter(shorthand.items())))
        whole = encoded_range(self.index.columns, id_prefix)
        low = whole if condition.low is None else self._range_of_text(id_prefix, "from_", condition.low)
        high = whole if condition.high is None else self._range_of_text(id_prefix, "to", condition.high)
        joined = KeyRange(low.low, high.high, low.low_open, high.high_open)
        _refuse_empty_range(joined, self.naming.common_argument("from_"), condition.low, condition.high)
        return joined

    def _range_of_text(self, id_prefix: Sequence[Condition], kind: str, text: Any) -> KeyRange:
        """Return the range for one of `eq`, `prefix`, `from_` and `to` on a composite sub id."""
        parts = [part.property for part in self.index.sort]
        codecs, separator = [part.column.codec for part in parts], self.entity.separator
        self.descriptions.append(f'{kind.rstrip("_")} "{text}"')
        with about(self.naming.common_argument(kind)):
            if kind == "prefix":
                values, start = parse_id_prefix(text, codecs, separator)
                last: list[Condition] = [Prefix(start)] if start else []
            elif kind == "eq":
                values, last = parse_composite_id(text, codecs, separator), []
            else:
                *values, bound = parse_leading_id_parts(text, codecs, separator)
                last = [Between(bound, None) if kind == "from_" else Between(None, bound)]
            if kind in ("eq", "prefix"):
                self.known.update(zip((part.name for part in parts), values, strict=False))
            return encoded_range(self.index.columns, [*id_prefix, *map(Eq, values), *last])


def _index_range(index: IndexSpec, conditions: Sequence[Condition]) -> KeyRange:
    if index.raw:
        return raw_range(index.sort[0].column.codec, conditions[0] if conditions else None)
    return encoded_range(index.columns, conditions)


def _parse_condition(argument: str, value: Any) -> Condition:
    """Parse a bare value as `eq`, and a mapping as exactly one kind of condition."""
    if isinstance(value, (Eq, Prefix, Between)):
        return value
    if not isinstance(value, Mapping):
        return Eq(value)
    provided = {"from_" if key == "from" else key: bound for key, bound in value.items() if bound is not None}
    one_kind = provided and (provided.keys() <= {"from_", "to"} or set(provided) in ({"eq"}, {"prefix"}))
    if not one_kind or {"from", "from_"} <= value.keys():
        raise ConflictingArguments(
            f"{argument} takes exactly one of eq, prefix, and from/to, not {sorted(map(str, value))}.",
            argument=argument,
        )
    return _parse_shorthand(provided)


def _parse_shorthand(shorthand: Mapping[str, Any]) -> Condition:
    name, value = next(iter(shorthand.items()))
    exact: Mapping[str, Callable[[Any], Condition]] = {"eq": Eq, "prefix": Prefix}
    return exact[name](value) if name in exact else Between(shorthand.get("from_"), shorthand.get("to"))


def _refuse_empty_range(key_range: KeyRange, argument: str, low: str, high: str) -> None:
    if key_range.is_empty:
        raise InvalidRange(
            f"{argument}: the range from {short_repr(low)} to {short_repr(high)} ends before it begins: exchange the "
            "two, and use reverse for the other order.",
            argument=argument,
        )


def _describe_condition(part: PropertySpec, condition: Condition) -> str:
    """Format a condition for explain output and page tokens."""
    codec = part.column.codec
    if isinstance(condition, Eq):
        return f'{part.stored} "{codec.format(condition.value)}"'
    if isinstance(condition, Prefix):
        return f'{part.stored} prefix "{condition.text}"'
    low = "" if condition.low is None else f' from "{codec.format(condition.low)}"'
    high = "" if condition.high is None else f' to "{codec.format(condition.high)}"'
    return f"{part.stored}{low}{high}"
