"""What everybody may read and write since nobody has said otherwise: `doctor` and a start in production tell it."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphql_api.model.access_declarations import is_open
from graphql_api.model.specs import EntitySpec


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """Entities of which the same was left unsaid, in words."""

    told: str
    remedy: str


def left_open(specs: Sequence[EntitySpec], *, is_written: bool = True) -> list[LeftOpen]:
    """What was left unsaid, where that lets everybody in; `is_written`: the server has mutations."""
    unread = [spec for spec in specs if spec.allow is None]
    unwritten = [spec for spec in specs if is_written and spec.write is None and is_open(spec.allow)]
    both = [spec for spec in unread if spec in unwritten]
    found = [
        (
            both,
            "read and write",
            f"{_which_carry(both)} no rule.",
            "Give allow=, and write= where that is for others; anyone, where it is meant.",
        ),
        (
            [spec for spec in unread if spec not in both],
            "read",
            "since nothing says who may.",
            "Give allow=, or allow=anyone where that is meant.",
        ),
        (
            [spec for spec in unwritten if spec not in both],
            "write",
            "since everybody may read that and nothing says who may write it.",
            "Give write=, or write=anyone where that is meant.",
        ),
    ]
    return [
        LeftOpen(f"Whoever reaches the server may {do} {entity_names(those)}, {why}", remedy)
        for those, do, why, remedy in found
        if those
    ]


def entity_names(specs: Sequence[EntitySpec]) -> str:
    """Entities by their names."""
    return ", ".join(spec.type_name for spec in specs)


def _which_carry(specs: Sequence[EntitySpec]) -> str:
    return "which carries" if len(specs) == 1 else "which carry"
