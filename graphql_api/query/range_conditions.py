"""Parse the arguments of a search into hash values and one range of the index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Between, Condition, Eq, KeyRange, Prefix, Text, encoded_range, raw_range, short_repr
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidValue,
    KeyTooLong,
    MissingArgument,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec
from graphql_api.query.composite_range import composite_range, has_composite_sort
from graphql_api.query.naming_scheme import CONDITION_ARGUMENTS, PAGING_ARGUMENTS, PYTHON_NAMES, NamingScheme
from graphql_api.query.search_arguments import (
    SearchArguments,
    describe_condition,
    parse_shorthand,
    refuse_empty_range,
)


@dataclass(frozen=True, slots=True)
class IndexConditions:
    """The parsed arguments of a search of one index."""

    hash_values: tuple[tuple[str, str], ...]
    """stored name and encoded value of each hash property"""
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


@dataclass(frozen=True, slots=True)
class _SortCondition:
    """A condition, and the arguments that hold its lower and upper bound."""

    condition: Condition
    low_argument: str
    high_argument: str


def parse_conditions(
    entity: EntitySpec, index: IndexSpec, arguments: Mapping[str, Any], naming: NamingScheme = PYTHON_NAMES
) -> IndexConditions:
    """Check all arguments and convert them to one range, the same for every shard."""
    remaining = dict(arguments)
    if "from" in remaining and naming.common_argument("from_") == "from_":
        if "from_" in remaining:
            raise ConflictingArguments("from and from_ are the same argument: provide it once.", argument="from_")
        remaining["from_"] = remaining.pop("from")
    parsed = SearchArguments(entity, index, naming, remaining)
    parsed.expand_id()
    hash_values = tuple((part.stored, part.column.encode(parsed.take_required(part))) for part in index.hash)
    id_prefix: list[Condition] = [Eq(parsed.take_required(part)) for part in index.id_prefix]
    shorthand = {
        name: value for name in CONDITION_ARGUMENTS if (value := parsed.take(naming.common_argument(name))) is not None
    }
    sort_parts = [(parsed.argument_of(part.property), part.property) for part in index.sort]
    by_argument = {name: value for name, _ in sort_parts if (value := parsed.take(name)) is not None}
    _refuse_unknown(parsed, sort_parts)
    _refuse_conflicts(parsed, shorthand, by_argument, sort_parts)
    if shorthand and not index.sort:
        argument = naming.common_argument(next(iter(shorthand)))
        raise UnknownArgument(
            f"{argument} applies to a sort property, and {parsed.search_name} has none: omit it.", argument=argument
        )
    sort: tuple[Condition, ...] | None = None
    if shorthand and has_composite_sort(index):
        key_range = composite_range(parsed, id_prefix, shorthand)
    else:
        requested = {sort_parts[0][0]: _from_shorthand(shorthand, naming)} if shorthand else {}
        requested |= {
            name: _SortCondition(_parse_condition(name, value), parsed.source_of(name), parsed.source_of(name))
            for name, value in by_argument.items()
        }
        conditions = _sort_conditions(parsed, requested, sort_parts)
        prefix_arguments = [parsed.argument_of(part) for part in index.id_prefix]
        key_range = _build_range(index, id_prefix, conditions, prefix_arguments, [*requested.values()])
        if conditions and isinstance(last := conditions[-1], Between) and None not in (last.low, last.high):
            codec = sort_parts[len(conditions) - 1][1].column.codec
            low, high = codec.format(last.low), codec.format(last.high)
            refuse_empty_range(key_range, next(reversed(requested.values())).low_argument, low, high)
        sort = tuple(conditions)
    description = ", ".join(parsed.descriptions)
    return IndexConditions(hash_values, key_range, parsed.known, parsed.bounds, description, sort, tuple(id_prefix))


# --- which arguments -------------------------------------------------------------------------------------------


def _refuse_unknown(parsed: SearchArguments, sort_parts: Sequence[tuple[str, PropertySpec]]) -> None:
    """Raise UnknownArgument if an argument was not consumed."""
    if not parsed.remaining:
        return
    unknown = next(iter(parsed.remaining))
    common = parsed.naming.common_argument
    accepted = [parsed.argument_of(part) for part in (*parsed.index.hash, *parsed.index.id_prefix)]
    accepted += [name for name, _ in sort_parts] + [*map(common, CONDITION_ARGUMENTS)]
    hint = nearest(unknown, [*accepted, *map(common, sorted(PAGING_ARGUMENTS))])
    raise UnknownArgument(
        f"{parsed.search_name} takes no argument {unknown!r}.{hint} It takes {', '.join(accepted)}.",
        argument=unknown,
    )


def _refuse_conflicts(
    parsed: SearchArguments,
    shorthand: Mapping[str, Any],
    by_argument: Mapping[str, Any],
    sort_parts: Sequence[tuple[str, PropertySpec]],
) -> None:
    """Raise ConflictingArguments for two kinds of shorthand, or for two conditions on one property."""
    kinds = [name for name in ("eq", "prefix") if name in shorthand]
    if "from_" in shorthand or "to" in shorthand:
        kinds.append(f"{parsed.naming.common_argument('from_')}/to")
    if len(kinds) > 1:
        raise ConflictingArguments(f"{' and '.join(kinds)} exclude each other: give one of them.", argument=kinds[0])
    covered = sort_parts if has_composite_sort(parsed.index) else sort_parts[:1]
    duplicate = next((parsed.source_of(name) for name, _ in covered if name in by_argument), None)
    if shorthand and duplicate is not None:
        argument = parsed.naming.common_argument(next(iter(shorthand)))
        raise ConflictingArguments(
            f"{argument} and {duplicate} ask for the same property: give one of them.", argument=argument
        )


# --- conditions on the sort properties -------------------------------------------------------------------------


def _from_shorthand(shorthand: Mapping[str, Any], naming: NamingScheme) -> _SortCondition:
    condition = parse_shorthand(shorthand)
    if isinstance(condition, Between):
        return _SortCondition(condition, naming.common_argument("from_") if "from_" in shorthand else "to", "to")
    (argument,) = shorthand
    return _SortCondition(condition, argument, argument)


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
    return parse_shorthand(provided)


def _sort_conditions(
    parsed: SearchArguments, requested: Mapping[str, _SortCondition], sort_parts: Sequence[tuple[str, PropertySpec]]
) -> list[Condition]:
    """Return the checked conditions in index order: no gaps, and all but the last one exact."""
    conditions: list[Condition] = []
    for at, (argument, part) in enumerate(sort_parts):
        if argument not in requested:
            later = next((name for name, _ in sort_parts[at:] if name in requested), None)
            if later is not None:
                raise MissingArgument(
                    f"{later} can be asked for only behind one exact {argument}: the index is ordered by "
                    f"{', '.join(name for name, _ in sort_parts)}.",
                    argument=later,
                )
            break
        if conditions and not isinstance(conditions[-1], Eq):
            raise ConflictingArguments(
                f"{argument} can be asked for only behind one exact {sort_parts[at - 1][0]}: use eq there, or "
                f"leave {argument} out.",
                argument=argument,
            )
        condition = _check_condition(parsed, part, requested[argument])
        conditions.append(condition)
        parsed.descriptions.append(describe_condition(part, condition))
    return conditions


def _check_condition(parsed: SearchArguments, part: PropertySpec, requested: _SortCondition) -> Condition:
    condition, argument = requested.condition, requested.low_argument
    if isinstance(condition, Eq):
        value = parsed.check(argument, part, condition.value)
        if value == "" and (parsed.index.raw or part in parsed.entity.primary_key):
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
        parsed.known[part.name] = value
        return Eq(value)
    if isinstance(condition, Prefix):
        codec, name = part.column.codec, parsed.naming.property_name(part.name)
        if not isinstance(codec, Text):
            raise InvalidValue(
                f"{argument}: {name} is {codec.name}, and only texts have prefixes: use eq, or from and to.",
                argument=argument,
            )
        if not isinstance(condition.text, str):
            raise InvalidValue(
                f"{argument}: a prefix is a text, not {short_repr(condition.text)}: pass the first characters.",
                argument=argument,
            )
        return Prefix(parsed.check(argument, part, condition.text))
    low = None if condition.low is None else parsed.check(argument, part, condition.low)
    high = None if condition.high is None else parsed.check(requested.high_argument, part, condition.high)
    parsed.bounds[part.name] = (low, high)
    return Between(low, high)


# --- the range -------------------------------------------------------------------------------------------------


def _build_range(
    index: IndexSpec,
    id_prefix: Sequence[Condition],
    conditions: Sequence[Condition],
    prefix_arguments: Sequence[str],
    requested: Sequence[_SortCondition],
) -> KeyRange:
    """Return one range for all conditions. If the key is too long, the error names the argument that made it so."""

    def build(some: Sequence[Condition]) -> KeyRange:
        if index.raw:
            return raw_range(index.sort[0].column.codec, some[0] if some else None)
        return encoded_range(index.columns, some)

    whole = [*id_prefix, *conditions]
    try:
        return build(whole)
    except (KeyTooLong, EmptyKey):
        for count, argument in enumerate(_arguments_in_key_order(prefix_arguments, requested), 1):
            with about(argument):
                build(_without_upper_bound(whole[:count]) if count <= len(whole) else whole)
        raise


def _arguments_in_key_order(prefix_arguments: Sequence[str], requested: Sequence[_SortCondition]) -> list[str]:
    """Return the arguments in the order in which they extend the key; the upper bound of a range is last."""
    return [*prefix_arguments] + [one.low_argument for one in requested] + [one.high_argument for one in requested[-1:]]


def _without_upper_bound(conditions: Sequence[Condition]) -> Sequence[Condition]:
    *first, last = conditions
    return [*first, Between(last.low, None)] if isinstance(last, Between) else conditions
