"""Which part of the histories an answer has: their entries, their current records, or both."""

from dataclasses import replace

from graphql_api.codecs import Eq, range_of, raw_range, shown
from graphql_api.errors import InvalidValue, KeyTooLong, UnknownArgument, nearest
from graphql_api.model import EntitySpec, IndexSpec
from graphql_api.query.filters import Test
from graphql_api.query.range_conditions import Conditions
from graphql_api.query.search_request import SearchRequest

HISTORIES = ("ALL", "PAST", "CURRENT")


def history_test(entity: EntitySpec, request: SearchRequest) -> Test | None:
    """What a request asks of the sub id, beside all else; None where everything is wanted."""
    argument = request.dialect.word("history")
    wanted: object = request.history
    if wanted not in HISTORIES:
        hint = nearest(wanted, HISTORIES) if isinstance(wanted, str) else ""
        raise InvalidValue(f"{argument} is ALL, PAST or CURRENT, not {shown(wanted)}.{hint}", argument=argument)
    if wanted == "ALL":
        return None
    if entity.current is None:
        raise UnknownArgument(
            f"{entity.type_name} keeps no current records, so {argument} has nothing to choose from: leave it out.",
            argument=argument,
        )
    return Test(entity.sub_ids[0], "eq" if wanted == "CURRENT" else "ne", (entity.current,))


def of_current(entity: EntitySpec, index: IndexSpec, conditions: Conditions) -> Conditions:
    """The same with the range cut to current records, where it is one of sub ids: the others are not even looked at."""
    name = entity.sub_ids[0].name
    place = next((place for place, part in enumerate(index.sort) if part.property.name == name), None)
    if conditions.sort is None or place is None or place >= len(conditions.sort):
        return conditions
    exact = [*conditions.sort[:place], Eq(entity.current)]
    try:
        if index.raw:
            current = raw_range(index.sort[0].column.codec, exact[0])
        else:
            current = range_of(index.columns, [*conditions.lead, *exact])
    except KeyTooLong:
        return conditions  # No record has such a key, and the test finds none.
    return replace(conditions, range=conditions.range.within(current))
