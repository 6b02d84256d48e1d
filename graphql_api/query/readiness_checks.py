"""What a search may use: indexes that are ready, and the records of its history scope."""

from collections.abc import Iterable

from graphql_api.codecs import short_repr
from graphql_api.errors import InvalidValue, PropertyName, ShardQLError, UnknownArgument, nearest
from graphql_api.model import LOST, ElementStatus, EntitySpec, IndexSpec, unready_error
from graphql_api.query.filter_operators import EQ, NE
from graphql_api.query.filters import Comparison
from graphql_api.query.search_request import SearchRequest

HISTORY_SCOPES = ("ALL", "PAST", "CURRENT")


def check_ready(entity: EntitySpec, request: SearchRequest) -> None:
    """Raise NotReady or CatalogBehind if an index of a search is not ready: the answer would be incomplete."""
    union = entity.unions.get(request.index)
    for attribute in (request.index,) if union is None else (member.attribute for member in union.members):
        status = entity.status_of(attribute)
        if status is not None and attribute in entity.indexes:
            name = request.naming.search_name(entity, union or entity.indexes[attribute])
            raise unready_error(status, f"{name} needs")


def lost_index_error(entity: EntitySpec, request: SearchRequest, index: IndexSpec) -> ShardQLError:
    """Return the error for a search by an index that is ready, and that the table lacks: it was deleted."""
    name = request.naming.search_name(entity, entity.unions.get(request.index) or entity.indexes[request.index])
    return unready_error(ElementStatus(f"index {index.entity}.{index.physical}", LOST), f"{name} needs")


def check_derived_ready(entity: EntitySpec, names: Iterable[str]) -> None:
    """Raise NotReady or CatalogBehind if stored values of a derived property may be of another version."""
    for part in map(entity.properties.__getitem__, names):
        status = None if part.function is None else entity.status_of(part.stored)
        if status is not None and status.state != "announced":
            raise unready_error(status, "{property} needs", property=PropertyName(part.name, entity.type_name))


def history_filter(entity: EntitySpec, request: SearchRequest) -> Comparison | None:
    """Return the test of the sub id for the requested scope; None if all records are requested."""
    argument = request.naming.common_argument("history")
    scope: object = request.history
    if scope not in HISTORY_SCOPES:
        hint = nearest(scope, HISTORY_SCOPES) if isinstance(scope, str) else ""
        raise InvalidValue(f"{argument} is ALL, PAST or CURRENT, not {short_repr(scope)}.{hint}", argument=argument)
    if scope == "ALL":
        return None
    if entity.declared_current is None:
        raise UnknownArgument(
            f"{entity.type_name} keeps no current records, so {argument} does not apply: omit it.", argument=argument
        )
    status = None if entity.recorded is None else entity.recorded.current
    if scope == "CURRENT" and status is not None:
        raise unready_error(status, f"{argument} {scope} needs", argument=argument)
    return Comparison(entity.sub_ids[0], EQ if scope == "CURRENT" else NE, (entity.current,))


def hidden_records_filter(entity: EntitySpec, request: SearchRequest) -> Comparison | None:
    """Return the test that leaves out current records which are incomplete, or which only other catalogs declare."""
    if request.history != "ALL" or not entity.hides_current:
        return None
    return Comparison(entity.sub_ids[0], NE, (entity.current,))
