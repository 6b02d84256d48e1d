"""`shardql explain`: what a GraphQL query would read, without reading it."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from graphql_api.cli.exit_codes import USAGE, errors_told, print_anywhere
from graphql_api.cli.page_output import plan_facts, print_facts
from graphql_api.errors import InvalidValue


def explain(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What a client would send; - reads it from the input stream.")
    ],
    *,
    variables: Annotated[
        str | None, typer.Option(metavar="JSON", help='Values of its variables: {"prefix": "jo"}.')
    ] = None,
    operation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of its operations, where it has several.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Whose key opens the page tokens of the query, as for serve; nothing is read."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows the plan of each search of a GraphQL query, without running it.

    A plan tells the index, the range of keys, the shards that can hold an answer, and how much of each is read first.
    A store is needed for page tokens alone, and only for the key that they were sealed with.

    Exit codes: 0 everything has a plan, 2 something in the query is wrong, 4 catalog.

    Try it:

    ```
    shardql explain graphql_api.examples.users:catalog '{ userByFirstName(prefix: "jo") { items { userId } } }'
    ```
    """
    from graphql_api.cli.query_plans import planned  # noqa: PLC0415 - the GraphQL engine, which few commands load
    from graphql_api.server import load_graph  # noqa: PLC0415 - as above

    with errors_told():
        graph = load_graph(address)
        text = sys.stdin.read() if query == "-" else query
        found = planned(graph, text, operation, _variables(variables), store)
    if as_json:
        problems = [
            {"message": each.message, "code": each.code, "path": each.path, "line": each.line, "column": each.column}
            for each in found.problems
        ]
        typer.echo(orjson.dumps({"plans": found.plans, "problems": problems}, option=orjson.OPT_INDENT_2))
    else:
        _print(found.plans)
        if not found.plans and not found.problems:
            typer.echo("The query asks for no records.")
    for problem in found.problems:
        typer.echo(f"shardql: query: {problem}", err=True)
    if found.problems:
        raise typer.Exit(USAGE)


def _variables(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise InvalidValue(f"--variables is no JSON: {problem}.") from problem
    if not isinstance(found, dict):
        raise InvalidValue('--variables is JSON, but no object: write {"name": value}.')
    return found


def _print(plans: tuple[Mapping[str, Any], ...]) -> None:
    print_anywhere()
    console = Console()
    for plan in plans:
        title = ".".join(map(str, plan["path"]))
        print_facts(console, title, _key_facts(plan) if "keys" in plan else _search_facts(plan))


def _search_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    direction = ", walking backward" if plan["backward"] else ""
    where = ", from where the token stands" if plan["resumed"] else ""
    return {
        "search": plan["conditions"] or f"every {plan['entity']}",
        **plan_facts(plan),
        "reads": f"{plan['firstRead']} records of each shard first, for a page of {plan['limit']}{direction}{where}",
    }


def _key_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    keys = "; ".join(f"{key['hashKey']} {key['rangeKey']}" for key in plan["keys"])
    why = {"why": plan["why"]} if "why" in plan else {}
    return {**why, "key": keys, "reads": f"{len(plan['keys'])} by key{', consistently' if plan['consistent'] else ''}"}
