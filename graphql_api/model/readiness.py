"""The refusal of requests that need an element of the table that is not ready."""

from typing import Any

from graphql_api.errors import CatalogBehind, NotReady
from graphql_api.model.specs import ElementStatus

BEHIND = "behind"
"""state of an element that the catalog of this server cannot compute"""

_STATES = {
    "absent": "the table does not know yet",
    "replaced": "has another definition in the table",
    "announced": "is announced, and not built yet",
    "building": "is being built",
    "closing": "is being removed",
    "dropping": "is being removed",
}
_MIGRATE = "shardql migrate MODULE:CATALOG --store URL --apply"


def unready_error(status: ElementStatus, use: str, **values: Any) -> NotReady | CatalogBehind:
    """Return the error for a use of an element that is not ready: `User.by_town needs`. `values`: of the error."""
    if status.state == BEHIND:
        return CatalogBehind(
            f"{use} the {status.element}, which the catalog of this server cannot compute: deploy the newer catalog on "
            "this server.",
            **values,
        )
    progress = f" ({status.progress})" if status.progress else ""
    return NotReady(
        f"{use} the {status.element}, which {_STATES[status.state]}{progress}. Finish the migration of the table, "
        f"then try again: {_MIGRATE}",
        element=status.element,
        state=status.state,
        progress=status.progress,
        **values,
    )
