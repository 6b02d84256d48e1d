"""Restrict a search of histories to their entries or to their current records."""

from dataclasses import replace

from graphql_api.codecs import Eq, encoded_range, raw_range, short_repr
from graphql_api.errors import InvalidValue, KeyTooLong, UnknownArgument, nearest
from graphql_api.model import EntitySpec, IndexSpec
from graphql_api.query.filters import Comparison
from graphql_api.query.range_conditions import IndexConditions
from graphql_api.query.search_request import SearchRequest

HISTORY_SCOPES = ("ALL", "PAST", "CURRENT")


def history_filter(entity: EntitySpec, request: SearchRequest) -> Comparison | None:
    """Return the test of the sub id for the requested scope; None if all records are requested."""
    argument = request.naming.common_argument("history")
    scope: object = request.history
    if scope not in HISTORY_SCOPES:
        hint = nearest(scope, HISTORY_SCOPES) if isinstance(scope, str) else ""
        raise InvalidValue(f"{argument} is ALL, PAST or CURRENT, not {short_repr(scope)}.{hint}", argument=argument)
    if scope == "ALL":
        return None
    if entity.current is None:
        raise UnknownArgument(
            f"{entity.type_name} keeps no current records, so {argument} does not apply: omit it.",
            argument=argument,
        )
    return Comparison(entity.sub_ids[0], "eq" if scope == "CURRENT" else "ne", (entity.current,))


def restrict_to_current(entity: EntitySpec, index: IndexSpec, conditions: IndexConditions) -> IndexConditions:
    """Narrow a range of sub ids to the current record, so that the engine does not read the entries."""
    sub_id = entity.sub_ids[0].name
    at = next((number for number, part in enumerate(index.sort) if part.property.name == sub_id), None)
    if conditions.sort is None or at is None or at >= len(conditions.sort):
        return conditions
    exact = [*conditions.sort[:at], Eq(entity.current)]
    try:
        if index.raw:
            current = raw_range(index.sort[0].column.codec, exact[0])
        else:
            current = encoded_range(index.columns, [*conditions.id_prefix, *exact])
    except KeyTooLong:
        return conditions  # No record has such a key, and the filter rejects every other record.
    return replace(conditions, range=conditions.range.intersection(current))
