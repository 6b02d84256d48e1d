"""Push comparisons of a filter down into the range of an index, so that fewer records are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphql_api.codecs import Between, Condition, EnumCodec, Eq, KeyRange, Prefix, encoded_range, raw_range
from graphql_api.errors import EmptyKey, KeyTooLong
from graphql_api.model import IndexSpec
from graphql_api.query.filters import Comparison, Filter
from graphql_api.query.range_conditions import IndexConditions


def narrow_range_by_filter(index: IndexSpec, conditions: IndexConditions, filters: Sequence[Filter]) -> IndexConditions:
    """Narrow the range and the shards by comparisons of the filter; the filter is still evaluated in full."""
    by_property: dict[str, list[Condition]] = {}
    for filter in filters:
        condition = _implied_condition(filter)
        if isinstance(filter, Comparison) and condition is not None:
            by_property.setdefault(filter.part.name, []).append(condition)
    if not by_property:
        return conditions
    known, bounds = dict(conditions.known), dict(conditions.bounds)
    for name, alternatives in by_property.items():
        match _choose_condition(alternatives):
            case Eq(value):
                known.setdefault(name, value)
            case Between(low, high) if name not in bounds:
                bounds[name] = (low, high)
    return replace(conditions, range=_narrow_range(index, conditions, by_property), known=known, bounds=bounds)


def _implied_condition(filter: Filter) -> Condition | None:
    """Return a condition that every match of a comparison meets; None if no range expresses one."""
    if not isinstance(filter, Comparison):
        return None
    match filter.operator:
        case "eq":
            return Eq(filter.values[0])
        case "prefix":
            return Prefix(filter.values[0])
        case "ge" | "gt":
            return Between(filter.values[0], None)
        case "le" | "lt":
            return Between(None, filter.values[0])
        case "between":
            return Between(*filter.values)
    return None


def _narrow_range(
    index: IndexSpec, conditions: IndexConditions, by_property: Mapping[str, Sequence[Condition]]
) -> KeyRange:
    sort = conditions.sort
    if sort is None or (sort and not isinstance(sort[-1], Eq)):
        return conditions.range
    extended = list(sort)
    for part in index.sort[len(sort) :]:
        if part.property.name not in by_property or (index.raw and isinstance(part.property.codec, EnumCodec)):
            break
        extended.append(_choose_condition(by_property[part.property.name]))
        if not isinstance(extended[-1], Eq):
            break
    if len(extended) == len(sort):
        return conditions.range
    try:
        if index.raw:
            return raw_range(index.sort[0].column.codec, extended[0])
        return encoded_range(index.columns, [*conditions.id_prefix, *extended])
    except (KeyTooLong, EmptyKey):
        return conditions.range  # No stored key has such a value; the filter itself rejects all records.


def _choose_condition(conditions: Sequence[Condition]) -> Condition:
    """Return one condition that holds wherever all of them hold."""
    exact = next((one for one in conditions if isinstance(one, Eq)), None)
    if exact is not None:
        return exact
    prefix = next((one for one in conditions if isinstance(one, Prefix)), None)
    if prefix is not None:
        return prefix
    low = next((one.low for one in conditions if isinstance(one, Between) and one.low is not None), None)
    high = next((one.high for one in conditions if isinstance(one, Between) and one.high is not None), None)
    return Between(low, high)
