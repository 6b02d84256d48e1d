"""Describe elements that are not ready, or unchecked: their states in words, and the remedies."""

from collections.abc import Mapping

from graphql_api.errors import WrongTable
from graphql_api.evolution.elements import Element, declared_elements
from graphql_api.evolution.proposals import proposed
from graphql_api.evolution.table_record import RENAME_REMEDY, RecordedElement, TableRecord
from graphql_api.model import Catalog, ElementStatus

UNCHECKED = "unchecked"
STATUSES = ("announced", "building", "ready", UNCHECKED, "closing", "dropping")
"""all states of recorded elements, as they are reported"""

_MIGRATE = "shardql migrate MODULE:CATALOG --store URL"
_REPORTS: Mapping[str, tuple[str, str]] = {
    "absent": (
        "is not recorded in the table yet",
        "A server announces it at its start, or: shardql table create MODULE:CATALOG --store URL",
    ),
    "replaced": ("has another definition in the table", RENAME_REMEDY),
    "announced": ("is announced: stored records do not follow it yet", f"Build it with: {_MIGRATE} --apply"),
    "building": ("is being built: requests that need it are refused", f"Finish building it with: {_MIGRATE} --apply"),
    UNCHECKED: (
        "is unchecked: an earlier release wrote its records, and nothing has verified them",
        f"Verify it with: {_MIGRATE} --apply",
    ),
    "closing": ("is being removed: requests that need it are refused", f"Finish removing it with: {_MIGRATE} --drop"),
    "dropping": ("is being removed: its stored values are deleted", f"Finish removing it with: {_MIGRATE} --drop"),
}


def reported_state(recorded: RecordedElement) -> str:
    """Return the state, or `unchecked` for a ready element that nothing has verified."""
    return recorded.state if recorded.is_checked or recorded.state != "ready" else UNCHECKED


def unfinished_elements(record: TableRecord, catalog: Catalog | None = None) -> list[ElementStatus]:
    """Return the elements that are not ready or unchecked, of all catalogs, in order of their names.

    With a catalog, also its entities and elements that the table lacks, or has with another definition.
    """
    states = {key: (f"{one.element}", reported_state(one)) for key, one in record.elements.items()}
    for key, element in _proposed_elements(record, catalog).items() if catalog is not None else ():
        recorded = record.elements.get(key)
        if element.entity not in record.entities:
            states[element.entity] = (f"entity {element.entity}", "absent")
        elif recorded is None or not recorded.element.fits(element):
            is_proposal = recorded is None or recorded.state == "announced"
            states[key] = (f"{element}", "absent" if is_proposal else "replaced")
    return [ElementStatus(*states[key]) for key in sorted(states) if states[key][1] != "ready"]


def _proposed_elements(record: TableRecord, catalog: Catalog) -> Mapping[str, Element]:
    """Return the elements that the table would have if it accepted the catalog; else those that are declared."""
    try:
        return {key: recorded.element for key, recorded in proposed(record, catalog).elements.items()}
    except WrongTable:
        return declared_elements(catalog)


def describe_element(status: ElementStatus) -> str:
    """Return one sentence about an element that is not ready or unchecked."""
    progress = f" ({status.progress})" if status.progress else ""
    return f"The {status.element} {_REPORTS[status.state][0]}{progress}."


def element_remedy(status: ElementStatus) -> str:
    """Return what to do about an element that is not ready or unchecked."""
    return _REPORTS[status.state][1]
