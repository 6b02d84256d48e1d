"""The principal of a request, as its credentials identify it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated principal, or the anonymous one if there is no subject."""

    subject: str | None = None
    groups: frozenset[str] = frozenset()
    tenant: str | None = None


ANONYMOUS = Identity()
