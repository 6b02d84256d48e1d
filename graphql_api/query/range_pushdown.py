"""What a filter says of the range of a search: it becomes narrower where tests are as good as conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphql_api.codecs import Between, Condition, EnumCodec, Eq, KeyRange, Prefix, range_of, raw_range
from graphql_api.errors import EmptyKey, KeyTooLong
from graphql_api.model import IndexSpec
from graphql_api.query.filters import Filter, Test, as_condition
from graphql_api.query.range_conditions import Conditions


def narrowed(index: IndexSpec, conditions: Conditions, tests: Sequence[Filter]) -> Conditions:
    """The same with a narrower range, and fewer shards, where tests of a filter say so; they are made all the same."""
    said: dict[str, list[Condition]] = {}
    for test in tests:
        condition = as_condition(test)
        if isinstance(test, Test) and condition is not None:
            said.setdefault(test.part.name, []).append(condition)
    if not said:
        return conditions
    known, bounds = dict(conditions.known), dict(conditions.bounds)
    for name, found in said.items():
        match _strictest(found):
            case Eq(value):
                known.setdefault(name, value)
            case Between(low, high) if name not in bounds:
                bounds[name] = (low, high)
    return replace(conditions, range=_narrowed_range(index, conditions, said), known=known, bounds=bounds)


def _narrowed_range(index: IndexSpec, conditions: Conditions, said: Mapping[str, Sequence[Condition]]) -> KeyRange:
    sort = conditions.sort
    if sort is None or (sort and not isinstance(sort[-1], Eq)):
        return conditions.range
    more = list(sort)
    for part in index.sort[len(sort) :]:
        if part.property.name not in said or (index.raw and isinstance(part.property.codec, EnumCodec)):
            break
        more.append(_strictest(said[part.property.name]))
        if not isinstance(more[-1], Eq):
            break
    if len(more) == len(sort):
        return conditions.range
    try:
        if index.raw:
            return raw_range(index.sort[0].column.codec, more[0])
        return range_of(index.columns, [*conditions.lead, *more])
    except (KeyTooLong, EmptyKey):
        return conditions.range  # The records that such a filter wants have no place in an index, or it says so itself.


def _strictest(found: Sequence[Condition]) -> Condition:
    """One condition that holds wherever all of them do."""
    exact = next((one for one in found if isinstance(one, Eq)), None)
    if exact is not None:
        return exact
    prefix = next((one for one in found if isinstance(one, Prefix)), None)
    if prefix is not None:
        return prefix
    low = next((one.low for one in found if isinstance(one, Between) and one.low is not None), None)
    high = next((one.high for one in found if isinstance(one, Between) and one.high is not None), None)
    return Between(low, high)
