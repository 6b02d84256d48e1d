"""Elements of the table that are not ready: how reports and errors describe them, and what to do about them."""

from collections.abc import Mapping
from typing import Any

from graphql_api.errors import CatalogBehind, NotReady
from graphql_api.model.recorded_elements import ElementStatus

NEWER = "newer"
"""state of an element that the catalog of this server cannot maintain, because it does not declare it"""
UNREACHABLE = "unreachable"
"""state of a lookup whose mapping items are in a store that this server has not opened"""
_OF_THIS_SERVER = frozenset({NEWER, UNREACHABLE})
"""states of elements that other servers can use"""
LOST = "lost"
"""state of an index that is ready, and whose physical index was deleted"""
UNCHECKED = "unchecked"
"""reported state of an element that is ready, and that nothing has verified"""

_MIGRATE = "shardql migrate MODULE:CATALOG --store URL"
_RENAME = (
    "Declare the new one in addition, under another name= in the catalog. Once it is ready, let searches use it, and "
    f"remove the old one with: {_MIGRATE} --drop"
)
_RENAME_CONSTRAINT = f"Declare the new one in addition. Once it is ready, remove the old one with: {_MIGRATE} --drop"
_REDEFINITION: Mapping[str, str] = {
    "unique": _RENAME_CONSTRAINT,
    "foreign key": _RENAME_CONSTRAINT,
    "generation": "Declare it as the table has it, and let a later generation follow.",
    "current record": f"Take it out of the catalog, and remove it with: {_MIGRATE} --drop. Then declare the new one.",
    "server-set": "Declare the property as the table has it, or another property in addition.",
}
"""remedies for kinds of elements that have no name= of their own"""

_STATES: Mapping[str, tuple[str, str]] = {
    "absent": (
        "is not recorded in the table yet",
        "A server announces it at its start, or: shardql table create MODULE:CATALOG --store URL",
    ),
    "replaced": ("has another definition in the table", _RENAME),
    "announced": ("is announced, and not built yet", f"Build it with: {_MIGRATE} --apply"),
    "building": ("is being built", f"Finish building it with: {_MIGRATE} --apply"),
    UNCHECKED: (
        "is unchecked: nothing has verified that all stored records comply with it",
        f"Verify it with: {_MIGRATE} --apply",
    ),
    NEWER: (
        "requires a newer catalog than the one in use",
        "Deploy the newer catalog on this server, or name it in the command.",
    ),
    UNREACHABLE: (
        "has its mapping items in another store than those of this server",
        "Open the table with the same lookup store as the other servers: --lookup-store URL",
    ),
    LOST: (
        "is ready, but its physical index was deleted",
        "Create it again with: shardql table create MODULE:CATALOG --store URL",
    ),
    "closing": ("is being removed, and no request may use it", f"Finish removing it with: {_MIGRATE} --drop"),
    "dropping": ("is being removed, and its values are deleted", f"Finish removing it with: {_MIGRATE} --drop"),
}
"""what is said of an element in each state, and the remedy"""
_REPLAY = "shardql project MODULE:GRAPH FILE --source NAME --store URL --replay"
_VERSION_STATES: Mapping[str, tuple[str, str]] = {
    "absent": ("is not built yet", f"Build it with: {_REPLAY}"),
    "building": ("is being built by a replay of events", f"Finish it with: {_REPLAY}"),
    "switching": (
        "is about to replace the version that is served, and no record is written until then",
        f"Retry. If no replay runs, finish it with: {_REPLAY}",
    ),
}
_PROPERTY_STATES: Mapping[str, tuple[str, str]] = {
    "absent": (
        "is not recorded in the table, so that other servers would erase its values",
        "A server that declares it announces it at its start.",
    ),
    "announced": (
        "is new, and some servers may not keep it yet",
        "It becomes ready by itself, some minutes after a start.",
    ),
}


def describe_element(status: ElementStatus) -> str:
    """Return one sentence about an element that is not ready, or unchecked."""
    return f"The {status.element} {_texts(status)[0]}{f' ({status.progress})' if status.progress else ''}."


def status_data(status: ElementStatus) -> dict[str, str]:
    """Return an element and its state for JSON, with the progress if it is known."""
    return {"element": status.element, "state": status.state} | (
        {"progress": status.progress} if status.progress else {}
    )


def element_remedy(status: ElementStatus) -> str:
    """Return what to do about an element that is not ready, or unchecked."""
    return _texts(status)[1]


def redefinition_remedy(element: object) -> str:
    """Return what to do if a catalog defines an element of the table in another way."""
    return next((remedy for kind, remedy in _REDEFINITION.items() if f"{element}".startswith(kind)), _RENAME)


def unready_error(status: ElementStatus, use: str, **values: Any) -> NotReady | CatalogBehind:
    """Return the error for a use of an element that is not ready: `User.by_town needs`. `values`: of the error."""
    clause, remedy = _texts(status)
    if status.state in _OF_THIS_SERVER:
        return CatalogBehind(f"{use} the {status.element}, which {clause}. {remedy}", **values)
    message = f"{use} the {status.element}, which {clause}{{progress}}. {remedy}"
    return NotReady(message, element=status.element, state=status.state, **values)


def _texts(status: ElementStatus) -> tuple[str, str]:
    """Return what is said of an element, and the remedy."""
    if status.element.startswith("entity version ") and status.state in _VERSION_STATES:
        return _VERSION_STATES[status.state]
    clause, remedy = _STATES[status.state]
    if status.element.startswith("property "):
        clause, remedy = _PROPERTY_STATES.get(status.state, (clause, remedy))
    if status.state == "building" and status.element.startswith(("unique ", "foreign key ")):
        clause = "is being built: it is enforced, and stored records may still violate it"
    if status.state == "replaced":
        remedy = redefinition_remedy(status.element)
    return clause, remedy
