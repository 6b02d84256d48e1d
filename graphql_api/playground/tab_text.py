"""Text of a GraphiQL tab: comments, and one operation below them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from graphql_api.codecs import format_composite_id
from graphql_api.model import Entity, EntitySpec

COMMENT_WIDTH = 50
"""Columns of the query editor in a window of ordinary size."""

PLACEHOLDER = '"…"'


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab with one operation that can be run unchanged."""

    title: str
    query: str
    variables: str = ""
    """A JSON object, formatted for the variables editor."""


@dataclass(frozen=True, slots=True)
class RequiredArgument:
    """A required argument of a field, with a value for a sample operation."""

    name: str
    value: str
    """A GraphQL literal."""
    is_known: bool
    """Records with this value are stored. Otherwise the value is a placeholder."""

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"


def id_argument(spec: EntitySpec, record: Entity | None) -> RequiredArgument:
    """Return the argument that identifies one record, or one history. It is a string, whatever the id consists of."""
    if record is None:
        return RequiredArgument("id", PLACEHOLDER, is_known=False)
    values = [getattr(record, part.name) for part in spec.ids]
    text = format_composite_id(values, [part.column.codec for part in spec.ids], spec.separator)
    return RequiredArgument("id", json.dumps(text, ensure_ascii=False), is_known=True)


def operation_tab(
    kind: str,
    title: str,
    field: str,
    *comments: str,
    arguments: Sequence[str],
    selection: Sequence[str],
    placeholders: Sequence[str],
    open_to_all: bool,
    variable: str | None = None,
) -> Tab:
    """Return a tab with an operation of one field. Arguments that do not fit in one line get a line each.

    Two comments are added: `placeholders` names the arguments to replace, and `open_to_all` whether anyone may run it.
    """
    replacing = f"Replace {' and '.join(placeholders)} with a value from your data." if placeholders else ""
    authorizing = "" if open_to_all else "Requires authorization: add credentials in the tab Headers."
    comment_lines = [
        fill(
            text,
            COMMENT_WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for text in (*comments, replacing, authorizing)
        if text
    ]
    argument_list = f"({', '.join(arguments)})" if arguments else ""
    if "\n" in argument_list or len(field) + len(argument_list) > COMMENT_WIDTH - len("   {"):
        lines = "\n".join(arguments).splitlines()
        argument_list = "\n".join(["(", *(f"    {line}" for line in lines), "  )"])
    head = f"{kind} {title}" + (f"(${variable}: String)" if variable else "")
    operation = block(head, block(f"{field}{argument_list}", selection))
    variables = json.dumps({variable: None}, indent=2) if variable else ""
    return Tab(title, "\n".join(["\n#\n".join(comment_lines), *operation, ""]), variables)


def block(head: str, lines: Sequence[str]) -> list[str]:
    """Return the head, followed by the indented lines in braces."""
    return [f"{head} {{", *(f"  {line}" for line in lines), "}"]


def join_names(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last
