"""The text of a tab: comments that fit beside the answer, above one operation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill

COMMENT_WIDTH = 50
"""columns that a window of ordinary size shows beside the answer"""


@dataclass(frozen=True, slots=True)
class Tab:
    """One operation, ready to be run."""

    title: str
    query: str
    variables: str = ""
    """a JSON object, as it stands in the editor"""


def document(head: str, comments: Iterable[str], field: str, arguments: Sequence[str], selection: Sequence[str]) -> str:
    """An operation of one field; its arguments stand in lines of their own where one would be too long."""
    given = f"({', '.join(arguments)})" if arguments else ""
    if "\n" in given or len(field) + len(given) > COMMENT_WIDTH - len("   {"):
        lines = "\n".join(arguments).splitlines()
        given = "\n".join(["(", *(f"    {line}" for line in lines), "  )"])
    said = "\n#\n".join(filter(None, comments))
    return "\n".join([said, *braced(head, braced(f"{field}{given}", selection)), ""])


def braced(head: str, lines: Sequence[str]) -> list[str]:
    """Lines in braces behind a head."""
    return [f"{head} {{", *(f"  {line}" for line in lines), "}"]


def comment(*sentences: str) -> str:
    """Sentences as one comment."""
    text = " ".join(filter(None, sentences))
    return fill(
        text, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def and_joined(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last


def rules_comment(*, open_to_all: bool) -> str:
    """What to do where not everybody is let in."""
    return "" if open_to_all else comment("Not for everybody: say who asks in the tab Headers.")


def gap_comment(gaps: Sequence[str]) -> str:
    """Which arguments want a value that nobody here knows."""
    return comment(f"Put a value that is in your data for {' and '.join(gaps)}.") if gaps else ""
