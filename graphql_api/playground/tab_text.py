"""Text of a GraphiQL tab: comments, and one operation below them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill

COMMENT_WIDTH = 50
"""Columns of the query editor in a window of ordinary size."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab with one operation that can be run unchanged."""

    title: str
    query: str
    variables: str = ""
    """A JSON object, formatted for the variables editor."""


def operation_text(
    head: str, comments: Iterable[str], field: str, arguments: Sequence[str], selection: Sequence[str]
) -> str:
    """Return the text of an operation with one field. Arguments that do not fit in one line get a line each."""
    argument_list = f"({', '.join(arguments)})" if arguments else ""
    if "\n" in argument_list or len(field) + len(argument_list) > COMMENT_WIDTH - len("   {"):
        lines = "\n".join(arguments).splitlines()
        argument_list = "\n".join(["(", *(f"    {line}" for line in lines), "  )"])
    comment_text = "\n#\n".join(filter(None, comments))
    return "\n".join([comment_text, *block(head, block(f"{field}{argument_list}", selection)), ""])


def block(head: str, lines: Sequence[str]) -> list[str]:
    """Return the head, followed by the indented lines in braces."""
    return [f"{head} {{", *(f"  {line}" for line in lines), "}"]


def comment(*sentences: str) -> str:
    """Return the sentences as one comment, wrapped to the width of the editor."""
    text = " ".join(filter(None, sentences))
    return fill(
        text, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def join_names(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last


def access_comment(*, open_to_all: bool) -> str:
    """Return how to authenticate, if the operation is not allowed for all callers."""
    return "" if open_to_all else comment("Requires authorization: add credentials in the tab Headers.")


def placeholder_comment(names: Sequence[str]) -> str:
    """Return which arguments have a placeholder that must be replaced by a value of the data."""
    return comment(f"Replace {' and '.join(names)} with a value from your data.") if names else ""
