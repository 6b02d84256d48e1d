"""Why a shard generation cannot be built: it begins too soon, or a stored record was created after its begin."""

from collections.abc import Mapping, Sequence

from graphql_api.evolution.record_repair import Violation
from graphql_api.evolution.shard_generations import beginning
from graphql_api.evolution.table_record import RecordedElement


def generations_too_soon(elements: Sequence[RecordedElement], now: float, seconds: float) -> dict[str, str]:
    """Return why generations cannot be built, by element: building takes longer than the time until they begin."""
    found: dict[str, str] = {}
    for recorded in elements:
        element = recorded.element
        if element.kind == "generation":
            codec, since = beginning(element)
            earliest = codec.at(now + seconds)
            if earliest is not None and since <= earliest:
                found[element.id] = (
                    f"The {element} begins {codec.display(since)}, and building it takes until "
                    f"{codec.display(earliest)} UTC at least: declare a later begin."
                )
    return _with_following(found, elements)


def generations_too_early(elements: Sequence[RecordedElement], violations: Sequence[Violation]) -> dict[str, str]:
    """Return why generations cannot be built, by element: a stored record was created after their begin."""
    own = {recorded.element.id: recorded.element for recorded in elements if recorded.element.kind == "generation"}
    found: dict[str, str] = {}
    for violation in violations:
        for element in (own[key] for key in violation.elements if key in own):
            codec, since = beginning(element)
            found[element.id] = (
                f"The {element} begins {codec.display(since)}, and a record in its shards is stored already "
                f"({violation}): declare a begin after all stored records."
            )
    return _with_following(found, elements)


def _with_following(found: dict[str, str], elements: Sequence[RecordedElement]) -> dict[str, str]:
    """Add the generations that follow one that cannot be built: they are built in order."""
    first: dict[str, int] = {}
    for recorded in elements:
        element = recorded.element
        if element.id in found:
            first[element.entity] = min(int(element.name), first.get(element.entity, int(element.name)))
    following = {
        one.element.id: f"The {one.element} follows a generation that cannot be built."
        for one in elements
        if one.element.kind == "generation" and int(one.element.name) > first.get(one.element.entity, 1 << 62)
    }
    return {**following, **found}


class GenerationsTooSoon(Exception):
    """Raised during a pass if generations begin before they can be ready."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(" ".join(reasons.values()))
        self.reasons = reasons
