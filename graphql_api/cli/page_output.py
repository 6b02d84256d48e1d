"""Prints pages and plans of searches: a table of records, and the explain output line by line."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from graphql_api.codecs import Timestamp
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.query.execution import Page


def print_page(console: Console, title: str, entity: EntitySpec, columns: Sequence[str], page: Page[Any]) -> None:
    """Print a page with a title, these properties, and its explain output."""
    properties = [entity.properties[name] for name in columns]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for part in properties:
        table.add_column(part.stored, no_wrap=True)
    for record in page.items:
        table.add_row(*(Text(_cell(part, getattr(record, part.name))) for part in properties))
    console.print(Group(Text(title, style="bold"), table, _explain_grid(page)))
    console.print()


def _cell(part: PropertySpec, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(part.codec, Timestamp):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d")
    return str(value)


def _explain_grid(page: Page[Any]) -> Table:
    return _grid({**_explain_facts(page.explain), "nextToken": page.next_token or "null: this is the last page"})


def _grid(facts: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    return grid


def _explain_facts(explain: Mapping[str, Any]) -> dict[str, str]:
    """Return the explain output of a page as labelled lines."""
    read = explain["read"]
    return {
        **plan_facts(explain),
        "work": f"rounds {read['rounds']}, reads {read['reads']}, records read {read['recordsRead']}, "
        f"fetched {read['fetched']}, returned {read['returned']}",
    }


def plan_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the indexes, key ranges and shards of a plan as labelled lines."""
    facts = {"why": plan["why"]} if "why" in plan else {}
    members = plan.get("indexes", [plan])
    for number, member in enumerate(members, 1):
        suffix = f" {number}" if len(members) > 1 else ""
        bounds, physical = member["range"], member["physicalIndex"] or "the table itself"
        direction = ", reversed" if plan["reverse"] else ""
        facts[f"index{suffix}"] = f"{member['index']} ({physical}), by {', '.join(member['order'])}{direction}"
        facts[f"range{suffix}"] = f"{bounds['from'] or 'the beginning'}  …  {bounds['to'] or 'the end'}"
    facts["shards"] = f"{plan['shards']}: {_abbreviate(plan['hashKeys'])}"
    return {**facts, **_further_facts(plan)}


def _further_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return how the plan filters, sorts and fetches rows, as labelled lines."""
    facts = {}
    if "filter" in plan:
        tested = plan["filter"]
        late = f"; on whole records: {'; '.join(tested['testedOnRecords'])}" if tested["testedOnRecords"] else ""
        facts["filter"] = f"{tested['conditions']}{late}"
    if "sortedBy" in plan:
        facts["sorted by"] = plan["sortedBy"]
    if "fetchesRecords" in plan:
        facts["fetches"] = "the records by key, since the index is not covering"
    return facts


def print_facts(console: Console, title: str, facts: Mapping[str, str]) -> None:
    """Print labelled lines with a title."""
    console.print(Group(Text(title, style="bold"), _grid(facts)))
    console.print()


def _abbreviate(hash_keys: Sequence[str]) -> str:
    return ", ".join(hash_keys) if len(hash_keys) <= 4 else f"{', '.join(hash_keys[:3])} … {hash_keys[-1]}"
