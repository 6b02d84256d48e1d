"""Predicate pushdown: evaluate parts of a filter in the range of an index, or inside the engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphql_api.codecs import Between, Condition, Eq, KeyRange, Prefix
from graphql_api.model import EntitySpec, IndexSpec
from graphql_api.query.filters import Combination, Comparison, Filter, Not, conjuncts
from graphql_api.query.property_values import has_default
from graphql_api.query.range_conditions import IndexConditions
from graphql_api.storage import ATTRIBUTE_OPERATIONS, AllOf, AnyOf, AttributeTest, StoreFilter


def narrow_range_by_filter(index: IndexSpec, conditions: IndexConditions, filters: Sequence[Filter]) -> IndexConditions:
    """Narrow the range and the shards by comparisons of the filter; the filter is still evaluated in full."""
    implied: dict[str, list[Condition]] = {}
    for filter in filters:
        if isinstance(filter, Comparison) and filter.operator.implied_condition is not None:
            condition = filter.operator.implied_condition(filter.values)
            implied.setdefault(filter.part.name, []).append(condition)
    if not implied:
        return conditions
    chosen = {name: _choose_condition(alternatives) for name, alternatives in implied.items()}
    known = {name: condition.value for name, condition in chosen.items() if isinstance(condition, Eq)}
    bounds = {
        name: (condition.low, condition.high) for name, condition in chosen.items() if isinstance(condition, Between)
    }
    return replace(
        conditions,
        range=_narrow_range(index, conditions, chosen),
        known={**known, **conditions.known},
        bounds={**bounds, **conditions.bounds},
    )


def _narrow_range(index: IndexSpec, conditions: IndexConditions, implied: Mapping[str, Condition]) -> KeyRange:
    sort = conditions.sort
    if sort is None or (sort and not isinstance(sort[-1], Eq)):
        return conditions.range
    extended = list(sort)
    for part in index.sort[len(sort) :]:
        if part.property.name not in implied or (index.raw and not part.column.codec.stores_in_order):
            break
        extended.append(implied[part.property.name])
        if not isinstance(extended[-1], Eq):
            break
    # No stored key has a value that is too long or empty; the filter itself rejects all records then.
    return conditions.range if len(extended) == len(sort) else conditions.range_of(index, extended)


def _choose_condition(conditions: Sequence[Condition]) -> Condition:
    """Return one condition that holds wherever all of them hold."""
    exact = next((one for kind in (Eq, Prefix) for one in conditions if isinstance(one, kind)), None)
    if exact is not None:
        return exact
    bounds = [one for one in conditions if isinstance(one, Between)]
    low = next((one.low for one in bounds if one.low is not None), None)
    high = next((one.high for one in bounds if one.high is not None), None)
    return Between(low, high)


def restrict_to_current(entity: EntitySpec, index: IndexSpec, conditions: IndexConditions) -> IndexConditions:
    """Narrow a range of sub ids to the current record, so that the engine does not read the entries."""
    sub_id = entity.sub_ids[0].name
    at = next((number for number, part in enumerate(index.sort) if part.property.name == sub_id), None)
    if conditions.sort is None or at is None or at >= len(conditions.sort):
        return conditions
    current = conditions.range_of(index, [*conditions.sort[:at], Eq(entity.current)])
    return replace(conditions, range=conditions.range.intersection(current))


def store_filter(entity: EntitySpec, parts: Iterable[Filter]) -> StoreFilter | None:
    """Return a filter for the engine that all matches of the parts meet; parts that it cannot express are omitted."""
    pushed = tuple(test for part in parts if (test := _push_down(entity, part)) is not None)
    return None if not pushed else pushed[0] if len(pushed) == 1 else AllOf(pushed)


def _push_down(entity: EntitySpec, filter: Filter) -> StoreFilter | None:
    if isinstance(filter, Combination) and filter.operator == "and":
        return store_filter(entity, conjuncts(filter))
    if isinstance(filter, Combination):
        parts = [_push_down(entity, part) for part in filter.parts]
        return None if None in parts or not parts else AnyOf(tuple(part for part in parts if part is not None))
    if isinstance(filter, Not) or filter.part.codec is None or filter.part.function is not None:
        return None
    codec = filter.part.codec
    if filter.operator.name not in ATTRIBUTE_OPERATIONS or not codec.stores_canonical_form:
        return None
    if filter.operator.ordered and not (codec.is_ordered and codec.stores_in_order):
        return None
    values = tuple(codec.store(value) for value in filter.values)
    return AttributeTest(filter.part.stored, filter.operator.name, values, or_missing=has_default(entity, filter.part))
