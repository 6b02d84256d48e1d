"""The sources of events of an application: their projections, and who may post events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphql_api.errors import InvalidCatalog, NotFound, Violation, nearest
from graphql_api.model import Catalog, Rule, Rules, RulesArgument, depends_on_record, normalize_rules
from graphql_api.projections.projection_functions import Projection


@dataclass(frozen=True, slots=True)
class EventSource:
    """A source of events."""

    name: str
    projections: tuple[Projection, ...]
    allow: Rules | None
    """who may post its events over HTTP; None: no client"""


def build_sources(
    catalog: Catalog, projections: Sequence[Projection], rules: Mapping[str, RulesArgument]
) -> Mapping[str, EventSource]:
    """Return the sources of projections by name. Raise `InvalidCatalog` with all problems."""
    normalized = {name: normalize_rules(argument) for name, argument in rules.items()}
    if problems := [*_violations(catalog, projections, normalized)]:
        raise InvalidCatalog(problems)
    names = dict.fromkeys(one.source for one in projections)
    return {
        name: EventSource(name, tuple(one for one in projections if one.source == name), normalized.get(name))
        for name in names
    }


def _violations(
    catalog: Catalog, projections: Sequence[Projection], rules: Mapping[str, Rules | None]
) -> Iterator[Violation]:
    declared = {spec.model for spec in catalog.entities.values()}
    seen: set[str] = set()
    for one in projections:
        where = f"projection {one.name}"
        if one.name in seen:
            yield Violation(where, None, "has the name of another projection.", 'Pass name="…" to one of them.')
        seen.add(one.name)
        for model in one.models:
            if model not in declared:
                name = model.__name__
                yield Violation(where, None, f"writes {name}, which the catalog does not declare.", "Declare it there.")
    sources = dict.fromkeys(one.source for one in projections)
    for name, allowed in rules.items():
        where = f"event_rules[{name!r}]"
        if name not in sources:
            hint = nearest(name, sources).strip() or "Name the source of a projection."
            yield Violation(where, None, "is the source of no projection.", hint)
        one_or_several: Sequence[object] = allowed or ()
        for rule in one_or_several:
            if not isinstance(rule, Rule):
                yield Violation(where, None, f"holds {rule!r}, which is no rule.", "Use anyone, signed_in or group(…).")
        if depends_on_record(allowed):
            remedy = "Use anyone, signed_in or group(…)."
            yield Violation(where, None, "depends on the owner of a record, and an event has none.", remedy)


def find_source(sources: Mapping[str, EventSource], name: str) -> EventSource:
    """Return a source by name. Raise `NotFound` if there is none."""
    if name not in sources:
        hint = nearest(name, sources) or (f" There are {', '.join(sources)}." if sources else " No projection has one.")
        raise NotFound(f"There is no source {name!r}.{hint}", argument="source")
    return sources[name]
