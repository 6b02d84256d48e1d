"""`docs/reference/errors.md` agrees with the error classes."""

import re
from collections import Counter
from importlib import import_module
from itertools import chain

from graphql_api.errors import ShardQLError
from tests.docs.pages import ROOT

PACKAGE = "graphql_api.errors"
ROW = re.compile(r"^\| `([A-Z_]+)` \| `(\w+)` \| (\d+) \| (yes|no) \| (.+?) \| (.+?) \|$", re.MULTILINE)
SECTIONS = {
    "The catalog and settings": "configuration_errors",
    "Arguments": "argument_errors",
    "Writes": "write_errors",
    "Events": "event_errors",
    "Tokens and record keys": "token_errors",
    "Authentication and authorization": "access_errors",
    "Storage": "storage_errors",
    "HTTP": "http_errors",
    "GraphQL documents": "document_errors",
}
"""The module that each section of the page documents."""


def error_classes(base: type[ShardQLError] = ShardQLError) -> list[type[ShardQLError]]:
    """Return all subclasses with their own code."""
    below = [
        found
        for child in base.__subclasses__()
        if child.__module__ == base.__module__
        for found in error_classes(child)
    ]
    return [base, *below] if "code" in vars(base) else below


def test_codes_are_unique() -> None:
    """No two error classes share a code."""
    counts = Counter(error.code for error in error_classes())
    assert counts
    assert [code for code, count in counts.items() if count > 1] == []


def test_every_error_has_a_summary() -> None:
    """Each error class has its own summary of one sentence, for clients that must not see the message."""
    assert [error for error in error_classes() if "summary" not in vars(error) or error.summary[-1] != "."] == []


def test_errors_are_documented() -> None:
    """Each section lists exactly the codes of its module, with class, status, retry advice, and summary."""
    _, *sections = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8").split("\n## ")
    listed = {text.partition("\n")[0]: [row[:5] for row in ROW.findall(text)] for text in sections}
    classes = {
        heading: [value for value in vars(import_module(f"{PACKAGE}.{module}")).values() if value in error_classes()]
        for heading, module in SECTIONS.items()
    }
    assert listed == {
        heading: [
            (error.code, error.__name__, str(error.status), "yes" if error.retryable else "no", error.summary)
            for error in errors
        ]
        for heading, errors in classes.items()
    }
    assert {*chain(*classes.values())} == {*error_classes()}


def test_errors_have_their_public_name() -> None:
    """The module of each error class is the package that exports it."""
    assert {error.__module__ for error in error_classes()} == {PACKAGE}
    assert [error for error in error_classes() if vars(import_module(PACKAGE))[error.__name__] is not error] == []
