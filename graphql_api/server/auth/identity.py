"""Who asks, as far as their credentials say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whom the server knows, or nobody."""

    subject: str | None = None
    groups: frozenset[str] = frozenset()
    tenant: str | None = None


NOBODY = Identity()
