"""From arguments to one range: which hash key, which range in it, and what is known of the records it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import (
    Between,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    RecordKey,
    Text,
    range_of,
    raw_range,
    shown,
    split_outside,
    split_outside_prefix,
    split_outside_start,
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
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, check_names
from graphql_api.query.argument_names import FLAT, PAGING, PYTHON, Dialect
from graphql_api.query.search_values import Final, searched_value


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the arguments of a search come to."""

    hash_values: tuple[tuple[str, str], ...]
    range: KeyRange
    known: Mapping[str, Any]
    """properties that have one value in every answer"""
    bounds: Mapping[str, tuple[Any | None, Any | None]]
    """properties that lie between two values in every answer"""
    words: str
    sort: tuple[Condition, ...] | None = None
    """the conditions on the first sort properties; None where a composite key is asked for as one text"""
    lead: tuple[Condition, ...] = ()


@dataclass(slots=True)
class _Reading:
    """The arguments while they are read: what is taken is gone, what is left at the end nobody knows."""

    entity: EntitySpec
    index: IndexSpec
    dialect: Dialect
    left: dict[str, Any]
    known: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, tuple[Any | None, Any | None]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    given_as: dict[str, str] = field(default_factory=dict)
    """arguments that came as part of another one, which errors speak of"""

    def take(self, name: str) -> Any | None:
        return self.left.pop(name, None)

    def name(self, part: PropertySpec) -> str:
        """The argument that asks for a property."""
        return self.dialect.argument(part.name)

    def shown(self, argument: str) -> str:
        """The argument as it was given."""
        return self.given_as.get(argument, argument)

    @property
    def search(self) -> str:
        """What the search is called."""
        return self.dialect.index(self.entity, self.index)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A condition, and under which arguments its bounds were given."""

    condition: Condition
    low_name: str
    high_name: str


def read_conditions(
    entity: EntitySpec, index: IndexSpec, arguments: Mapping[str, Any], dialect: Dialect = PYTHON
) -> Conditions:
    """Checks every argument and turns them into one range of one hash key (per shard)."""
    left = dict(arguments)
    if "from" in left and dialect.word("from_") == "from_":
        if "from_" in left:
            raise ConflictingArguments("from and from_ are one argument; give it once.", argument="from_")
        left["from_"] = left.pop("from")
    reading = _Reading(entity, index, dialect, left)
    _spread_outside_id(reading)
    hash_values = tuple((part.stored, part.column.encode(_given_value(reading, part))) for part in index.hash)
    lead: list[Condition] = [Eq(_given_value(reading, part)) for part in index.lead]
    flat = {name: value for name in FLAT if (value := reading.take(dialect.word(name))) is not None}
    by_property = [(reading.name(part.property), part.property) for part in index.sort]
    own = {name: value for name, _ in by_property if (value := reading.take(name)) is not None}
    if reading.left:
        unknown = next(iter(reading.left))
        known_names = [reading.name(part) for part in (*index.hash, *index.lead)]
        known_names += [name for name, _ in by_property] + [*map(dialect.word, FLAT)]
        hint = nearest(unknown, [*known_names, *map(dialect.word, sorted(PAGING))])
        raise UnknownArgument(
            f"{reading.search} takes no argument {unknown!r}.{hint} It takes {', '.join(known_names)}.",
            argument=unknown,
        )
    _refuse_mixed(reading, flat, own, by_property)
    if flat and not index.sort:
        given = dialect.word(next(iter(flat)))
        raise UnknownArgument(f"{given} asks for a sort property, and {reading.search} has none.", argument=given)
    sort: tuple[Condition, ...] | None = None
    if flat and _is_composite(index):
        key_range = _outside_range(reading, lead, flat)
    else:
        asked = {by_property[0][0]: _flat_asked(flat, dialect)} if flat else {}
        asked |= {
            name: _Asked(_as_condition(name, given), reading.shown(name), reading.shown(name))
            for name, given in own.items()
        }
        conditions = _sort_conditions(reading, asked, by_property)
        lead_names = [reading.name(part) for part in index.lead]
        key_range = _range_of(index, lead, conditions, lead_names, [*asked.values()])
        if conditions and isinstance(last := conditions[-1], Between) and None not in (last.low, last.high):
            codec = by_property[len(conditions) - 1][1].column.codec
            low, high = codec.format(last.low), codec.format(last.high)
            _refuse_empty(key_range, next(reversed(asked.values())).low_name, low, high)
        sort = tuple(conditions)
    words = ", ".join(reading.words)
    return Conditions(hash_values, key_range, reading.known, reading.bounds, words, sort, tuple(lead))


# --- hash properties and ids -----------------------------------------------------------------------------------


def _spread_outside_id(reading: _Reading) -> None:
    """`id="prod/orders"` on by_id stands for the id's properties; an entity's own property `id` goes before it."""
    entity, index = reading.entity, reading.index
    taken = "id" in map(reading.dialect.property, entity.properties)
    if index.physical is not None or taken or (given := reading.left.get("id")) is None:
        return
    if not entity.ids:
        raise UnknownArgument(f"{entity.type_name} has no id, since there is one of it: leave id out.", argument="id")
    del reading.left["id"]
    with about("id"):
        if isinstance(given, RecordKey):
            check_names(entity, given)
            values: list[Any] = [*map(Final, given.ids)]
        else:
            values = split_outside(given, [part.column.codec for part in entity.ids], entity.separator)
    for part, value in zip(entity.ids, values, strict=True):
        argument = reading.name(part)
        if reading.left.get(argument) is not None:
            raise ConflictingArguments(f"id and {argument} ask for the same property: give one of them.", argument="id")
        reading.left[argument] = Eq(value)
        reading.given_as[argument] = "id"


def _given_value(reading: _Reading, part: PropertySpec) -> Any:
    """The one value of a property that every search of this index needs."""
    argument = reading.name(part)
    value = reading.take(argument)
    argument = reading.shown(argument)
    if isinstance(value, Mapping) and set(value) == {"eq"}:
        value = value["eq"]
    if isinstance(value, Eq):
        value = value.value
    if value is None:
        raise MissingArgument(
            f"{reading.search} is searched for one {argument}: give it.",
            argument=argument,
        )
    checked = _checked(reading, argument, part, value)
    if checked == "":
        raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
    reading.known[part.name] = checked
    reading.words.append(_in_words(part, Eq(checked)))
    return checked


# --- conditions on the sort properties -------------------------------------------------------------------------


def _is_composite(index: IndexSpec) -> bool:
    """Whether flat conditions are about several parts as one text."""
    return index.physical is None and len(index.sort) > 1


def _refuse_mixed(
    reading: _Reading, flat: Mapping[str, Any], own: Mapping[str, Any], by_property: list[tuple[str, PropertySpec]]
) -> None:
    kinds = [name for name in ("eq", "prefix") if name in flat]
    if "from_" in flat or "to" in flat:
        kinds.append(f"{reading.dialect.word('from_')}/to")
    if len(kinds) > 1:
        raise ConflictingArguments(f"{' and '.join(kinds)} exclude each other: give one of them.", argument=kinds[0])
    covered = by_property if _is_composite(reading.index) else by_property[:1]
    double = next((reading.shown(name) for name, _ in covered if name in own), None)
    if flat and double is not None:
        given = reading.dialect.word(next(iter(flat)))
        raise ConflictingArguments(f"{given} and {double} ask for the same property: give one of them.", argument=given)


def _flat_condition(flat: Mapping[str, Any]) -> Condition:
    if "eq" in flat:
        return Eq(flat["eq"])
    if "prefix" in flat:
        return Prefix(flat["prefix"])
    return Between(flat.get("from_"), flat.get("to"))


def _flat_asked(flat: Mapping[str, Any], dialect: Dialect) -> _Asked:
    condition = _flat_condition(flat)
    if isinstance(condition, Between):
        return _Asked(condition, dialect.word("from_") if "from_" in flat else "to", "to")
    return _Asked(condition, *flat, *flat)


def _sort_conditions(
    reading: _Reading, asked: Mapping[str, _Asked], by_property: list[tuple[str, PropertySpec]]
) -> list[Condition]:
    """The conditions in the index's order: all but the last one are exact, and none is left out between."""
    conditions: list[Condition] = []
    for at, (argument, part) in enumerate(by_property):
        if argument not in asked:
            later = next((name for name, _ in by_property[at:] if name in asked), None)
            if later is not None:
                raise MissingArgument(
                    f"{later} can be asked for only behind one exact {argument}: the index is ordered by "
                    f"{', '.join(name for name, _ in by_property)}.",
                    argument=later,
                )
            break
        if conditions and not isinstance(conditions[-1], Eq):
            raise ConflictingArguments(
                f"{argument} can be asked for only behind one exact {by_property[at - 1][0]}: use eq there, or "
                f"leave {argument} out.",
                argument=argument,
            )
        condition = _checked_condition(reading, part, asked[argument])
        conditions.append(condition)
        reading.words.append(_in_words(part, condition))
    return conditions


def _as_condition(argument: str, given: Any) -> Condition:
    """A bare value is `eq`; a mapping names exactly one kind of condition."""
    if isinstance(given, (Eq, Prefix, Between)):
        return given
    if not isinstance(given, Mapping):
        return Eq(given)
    found = {"from_" if key == "from" else key: value for key, value in given.items() if value is not None}
    one_kind = found and (found.keys() <= {"from_", "to"} or set(found) in ({"eq"}, {"prefix"}))
    if not one_kind or {"from", "from_"} <= given.keys():
        raise ConflictingArguments(
            f"{argument} takes exactly one of eq, prefix, and from/to, not {sorted(map(str, given))}.",
            argument=argument,
        )
    return _flat_condition(found)


def _checked_condition(reading: _Reading, part: PropertySpec, asked: _Asked) -> Condition:
    condition, argument = asked.condition, asked.low_name
    if isinstance(condition, Eq):
        value = _checked(reading, argument, part, condition.value)
        if value == "" and (reading.index.raw or part in reading.entity.primary):
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
        reading.known[part.name] = value
        return Eq(value)
    if isinstance(condition, Prefix):
        codec, called = part.column.codec, reading.dialect.property(part.name)
        if not isinstance(codec, Text):
            raise InvalidValue(
                f"{argument}: {called} is {codec.name}, and only texts have prefixes: use eq, or from and to.",
                argument=argument,
            )
        if not isinstance(condition.text, str):
            raise InvalidValue(
                f"{argument}: a prefix is a text, not {shown(condition.text)}: give the first characters.",
                argument=argument,
            )
        return Prefix(_checked(reading, argument, part, condition.text))
    low = None if condition.low is None else _checked(reading, argument, part, condition.low)
    high = None if condition.high is None else _checked(reading, asked.high_name, part, condition.high)
    reading.bounds[part.name] = (low, high)
    return Between(low, high)


def _checked(reading: _Reading, argument: str, part: PropertySpec, value: Any) -> Any:
    with about(argument):
        return searched_value(reading.entity, part, value)


def _range_of(
    index: IndexSpec,
    lead: Sequence[Condition],
    conditions: Sequence[Condition],
    lead_names: Sequence[str],
    asked: Sequence[_Asked],
) -> KeyRange:
    """One range for all conditions; what is too long is blamed on the argument with which it became so."""

    def of(some: Sequence[Condition]) -> KeyRange:
        if index.raw:
            return raw_range(index.sort[0].column.codec, some[0] if some else None)
        return range_of(index.columns, some)

    whole = [*lead, *conditions]
    try:
        return of(whole)
    except (KeyTooLong, EmptyKey):
        for count, argument in enumerate(_blamed(lead_names, asked), 1):
            with about(argument):
                of(_only_low(whole[:count]) if count <= len(whole) else whole)
        raise


def _blamed(lead_names: Sequence[str], asked: Sequence[_Asked]) -> list[str]:
    """The arguments in the order in which they make a key longer; the upper bound of a range comes last."""
    return [*lead_names] + [one.low_name for one in asked] + [one.high_name for one in asked[-1:]]


def _only_low(conditions: Sequence[Condition]) -> Sequence[Condition]:
    *first, last = conditions
    return [*first, Between(last.low, None)] if isinstance(last, Between) else conditions


def _refuse_empty(key_range: KeyRange, argument: str, low: str, high: str) -> None:
    if key_range.is_empty:
        raise InvalidRange(
            f"{argument}: the range from {shown(low)} to {shown(high)} ends before it begins: exchange the two, and "
            "use reverse for the other order.",
            argument=argument,
        )


# --- conditions on a composite sub id as one text --------------------------------------------------------------


def _outside_range(reading: _Reading, lead: list[Condition], flat: Mapping[str, Any]) -> KeyRange:
    """Flat conditions on several parts at once: `prefix="electronics/"` is exactly the first part."""
    condition = _flat_condition(flat)
    if isinstance(condition, Between):
        whole = range_of(reading.index.columns, lead)
        low = _outside_part(reading, lead, "from_", condition.low) if condition.low is not None else whole
        high = _outside_part(reading, lead, "to", condition.high) if condition.high is not None else whole
        joined = KeyRange(low.low, high.high, low.low_open, high.high_open)
        _refuse_empty(joined, reading.dialect.word("from_"), condition.low, condition.high)
        return joined
    return _outside_part(reading, lead, *next(iter(flat.items())))


def _outside_part(reading: _Reading, lead: list[Condition], kind: str, text: Any) -> KeyRange:
    parts = [part.property for part in reading.index.sort]
    codecs, separator = [part.column.codec for part in parts], reading.entity.separator
    reading.words.append(f'{kind.rstrip("_")} "{text}"')
    with about(reading.dialect.word(kind)):
        if kind == "prefix":
            values, start = split_outside_prefix(text, codecs, separator)
            last: list[Condition] = [Prefix(start)] if start else []
        elif kind == "eq":
            values, last = split_outside(text, codecs, separator), []
        else:
            *values, bound = split_outside_start(text, codecs, separator)
            last = [Between(bound, None) if kind == "from_" else Between(None, bound)]
        if kind in ("eq", "prefix"):
            reading.known.update(zip((part.name for part in parts), values, strict=False))
        return range_of(reading.index.columns, [*lead, *map(Eq, values), *last])


# --- words -----------------------------------------------------------------------------------------------------


def _in_words(part: PropertySpec, condition: Condition) -> str:
    codec = part.column.codec
    if isinstance(condition, Eq):
        return f'{part.stored} "{codec.format(condition.value)}"'
    if isinstance(condition, Prefix):
        return f'{part.stored} prefix "{condition.text}"'
    low = "" if condition.low is None else f' from "{codec.format(condition.low)}"'
    high = "" if condition.high is None else f' to "{codec.format(condition.high)}"'
    return f"{part.stored}{low}{high}"
