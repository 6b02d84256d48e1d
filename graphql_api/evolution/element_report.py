"""The elements of a table that are not ready, or unchecked."""

from collections.abc import Mapping

from graphql_api.errors import WrongTable
from graphql_api.evolution.elements import Element, declared_elements
from graphql_api.evolution.entity_versions import served_catalog
from graphql_api.evolution.proposals import proposed
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import UNCHECKED, UNREACHABLE, Catalog, ElementStatus

STATUSES = ("announced", "building", "switching", "ready", UNCHECKED, "closing", "dropping")
"""all states of recorded elements, as they are reported"""


def reported_state(recorded: RecordedElement) -> str:
    """Return the state, or `unchecked` for a ready element that nothing has verified."""
    return recorded.state if recorded.is_checked or recorded.state != "ready" else UNCHECKED


def unfinished_elements(record: TableRecord, catalog: Catalog | None = None) -> list[ElementStatus]:
    """Return the elements that are not ready or unchecked, of all catalogs, in order of their names.

    With a catalog, also its entities and elements that the table lacks, or has with another definition.
    """
    found = {
        key: ElementStatus(f"{one.element}", reported_state(one), record.progress_of(one))
        for key, one in record.elements.items()
    }
    for key, element in _proposed_elements(record, catalog).items() if catalog is not None else ():
        recorded = record.elements.get(key)
        if element.entity not in record.entities:
            found[element.entity] = ElementStatus(f"entity {element.entity}", "absent")
        elif recorded is None or not recorded.element.fits(element):
            found[key] = ElementStatus(f"{element}", _difference(recorded, element))
    return [found[key] for key in sorted(found) if found[key].state != "ready"]


def _difference(recorded: RecordedElement | None, declared: Element) -> str:
    if recorded is None or recorded.state == "announced":
        return "absent"
    return UNREACHABLE if declared.is_apart_from(recorded.element) else "replaced"


def _proposed_elements(record: TableRecord, catalog: Catalog) -> Mapping[str, Element]:
    """Return the elements that the table would have if it accepted the catalog; else those that are declared."""
    try:
        return {key: recorded.element for key, recorded in proposed(record, catalog).elements.items()}
    except WrongTable:
        return declared_elements(served_catalog(catalog, record))
