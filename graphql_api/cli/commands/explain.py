"""`shardql explain`: shows the plans of a GraphQL query without reading anything."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console

from graphql_api.cli.common_options import CatalogAddress, JsonOutput, option
from graphql_api.cli.exit_codes import USAGE
from graphql_api.cli.terminal_output import fact_grid, plan_facts, print_group, print_json, replace_unencodable_output
from graphql_api.errors import InvalidValue

if TYPE_CHECKING:
    from graphql_api.server import Settings


def explain(
    address: CatalogAddress,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The GraphQL query; - reads it from standard input.")],
    *,
    variables: Annotated[str | None, option("JSON", 'Values of the variables: {"prefix": "jo"}.')] = None,
    operation: Annotated[str | None, option("NAME", "Name of the operation, if the document has several.")] = None,
    store: Annotated[
        str | None, option("URL", "Store whose key opens the page tokens of the query. It is not read.")
    ] = None,
    record_bytes: Annotated[
        int | None, option("N", "Size of a record, for the estimate; by default as the entity declares.", min=1)
    ] = None,
    matches: Annotated[
        int | None,
        option("N", "Records in the range of each shard, for the estimate; by default plenty.", min=0),
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Show the plan and the price of each search of a GraphQL query, without running it.

    A plan names the index, the key range, the shards, and how many records of each shard are read first. The price is
    an estimate of the capacity units, also for the writes of a mutation. The option --store is needed only if the query
    contains page tokens.

    Exit codes: 0 every field has a plan, 2 the query has errors, 4 catalog.

    Try it:

    ```
    shardql explain graphql_api.examples.users:catalog '{ userByFirstName(prefix: "jo") { items { userId } } }'
    ```
    """
    from graphql_api.cli.query_plans import plan_query  # noqa: PLC0415 - slow import that few commands need
    from graphql_api.query import ReadStatistics  # noqa: PLC0415 - slow import that few commands need
    from graphql_api.server import load_graph, read_settings  # noqa: PLC0415 - slow import that few commands need

    graph = load_graph(address)
    document = sys.stdin.read() if query == "-" else query
    statistics = ReadStatistics(record_bytes, matches_per_shard=matches)
    plans, problems = plan_query(graph, document, operation, _parse_variables(variables), store, statistics)
    if as_json:
        print_json({"plans": plans, "problems": problems})
    else:
        replace_unencodable_output()
        settings = read_settings(store=store)
        for plan in plans:
            facts = _facts(plan) | _price_facts(plan, settings)
            print_group(Console(), ".".join(map(str, plan["path"])), fact_grid(facts))
        if not plans and not problems:
            typer.echo("The query reads no records.")
    for problem in problems:
        typer.echo(f"shardql: query: {problem}", err=True)
    if problems:
        raise typer.Exit(USAGE)


def _parse_variables(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        variables: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValue(f"--variables is not JSON: {error}.") from error
    if not isinstance(variables, dict):
        raise InvalidValue('--variables is not a JSON object: write {"name": value}.')
    return variables


def _facts(plan: Mapping[str, Any]) -> dict[str, str]:
    if "write" in plan:
        return {"writes": f"{plan['records']} {plan['entity']} by key"}
    return _lookup_facts(plan) if "keys" in plan else _search_facts(plan)


def _price_facts(plan: Mapping[str, Any], settings: "Settings") -> dict[str, str]:
    """Return the estimate in capacity units, and its price by the prices of the settings."""
    kind, price = ("write", settings.write_unit_price) if "write" in plan else ("read", settings.read_unit_price)
    estimate = plan["write"]["estimate"] if kind == "write" else plan["estimate"]
    units = f"{estimate['expected']:,g} {kind} units expected, from {estimate['least']:,g} to {estimate['most']:,g}"
    cost = f"{estimate['expected'] * price:,.3f} for a million, at {price:g} per million {kind} units"
    return {"units": units, "price": cost}


def _search_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    direction = ", backward" if plan["backward"] else ""
    start = ", from the position of the page token" if plan["resumed"] else ""
    return {
        "search": plan["conditions"] or f"every {plan['entity']}",
        **plan_facts(plan),
        "reads": f"{plan['firstRead']} records of each shard first, for a page of {plan['limit']}{direction}{start}",
    }


def _lookup_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    keys = "; ".join(f"{key['hashKey']} {key['rangeKey']}" for key in plan["keys"])
    why = {"why": plan["why"]} if "why" in plan else {}
    then = f", then {plan['then']}" if "then" in plan else ""
    consistently = ", consistently" if plan["consistent"] else ""
    return {**why, "key": keys, "reads": f"{len(plan['keys'])} by key{consistently}{then}"}
