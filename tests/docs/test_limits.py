"""The table of limits in `docs/reference/graphql.md` agrees with the code."""

import re
from dataclasses import fields

from graphql_api.errors import DeadlineExceeded, LimitExceeded, ShardQLError
from graphql_api.schema.execution.document_executor import MAX_TEXT_LENGTH
from graphql_api.schema.execution.document_limits import Limits
from tests.docs.pages import ROOT
from tests.docs.test_errors import error_classes

ROW = re.compile(r"^\| (`(\w+)`|characters)[^|]* \| ([\d,.]+) \| `([A-Z_]+)` \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "reference" / "graphql.md").read_text(encoding="utf-8")


def test_limits_are_documented() -> None:
    """The table lists exactly the existing limits with their defaults."""
    listed = {name or words: float(number.replace(",", "")) for words, name, number, _ in ROW.findall(PAGE)}
    defaults = {field.name: float(getattr(Limits(), field.name)) for field in fields(Limits)}
    assert listed == {**defaults, "characters": MAX_TEXT_LENGTH}


def test_codes_of_limits_are_documented() -> None:
    """The table names exactly the error codes of limits and the deadline."""
    listed = {code for *_, code in ROW.findall(PAGE)}
    bases: tuple[type[ShardQLError], ...] = (LimitExceeded, DeadlineExceeded)
    assert listed == {error.code for base in bases for error in error_classes(base)}
