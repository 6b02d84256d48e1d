"""The table of errors and the classes of errors say the same."""

import re
from collections import Counter

from graphql_api.errors import ShardQLError
from tests.docs.pages import ROOT

ROW = re.compile(r"^\| `([A-Z_]+)` \| `(\w+)` \| (\d+) \| (yes|no) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def error_classes(base: type[ShardQLError] = ShardQLError) -> list[type[ShardQLError]]:
    """Every class of the product that has a code of its own, in the order of the source."""
    below = [
        found
        for child in base.__subclasses__()
        if child.__module__ == base.__module__
        for found in error_classes(child)
    ]
    return [base, *below] if "code" in vars(base) else below


def test_codes_are_unique() -> None:
    """No two classes of errors share a code."""
    counts = Counter(error.code for error in error_classes())
    assert counts
    assert [code for code, count in counts.items() if count > 1] == []


def test_errors_are_documented() -> None:
    """The table lists exactly the codes there are, with class, status, whether to retry, and the class's own words."""
    listed = ROW.findall((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    assert [row[:5] for row in listed] == [
        (
            error.code,
            error.__name__,
            str(error.status),
            "yes" if error.retryable else "no",
            (error.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        )
        for error in error_classes()
    ]
