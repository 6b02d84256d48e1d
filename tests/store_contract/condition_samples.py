"""Write conditions, each with its result for a missing record and for a stored record."""

from decimal import Decimal

import pytest

from graphql_api.storage.values import Expect, Key
from tests.store_contract.samples import record

STORED_RECORD = record(Key("h!", "r"), a=1, b=["x", 1], d=None)
"""the record on which the conditions are evaluated"""

TYPED = pytest.mark.needs("typed conditions")

EXPECTATIONS = [
    (Expect(absent=True), True, False),
    (Expect(), False, True),
    (Expect(attributes={"a": 1}), False, True),
    (Expect(attributes={"a": Decimal("1.0")}), False, True),
    pytest.param(Expect(attributes={"a": True}), False, False, marks=TYPED),
    (Expect(attributes={"a": "1"}), False, False),
    (Expect(attributes={"a": 2}), False, False),
    (Expect(attributes={"a": 1, "b": ["x", 1]}), False, True),
    pytest.param(Expect(attributes={"a": 1, "b": ["x", True]}), False, False, marks=TYPED),
    pytest.param(Expect(attributes={"c": None}), False, False, marks=TYPED),
    (Expect(attributes={"d": None}), False, True),
    (Expect(without=("c",)), False, True),
    (Expect(without=("a",)), False, False),
    (Expect(without=("d",)), False, False),
    (Expect(without=("c", "a")), False, False),
    (Expect(without=("rangeKey",)), False, False),
    (Expect(attributes={"a": 1, "d": None}, without=("c", "e", "c")), False, True),
    (Expect(attributes={"a": 2}, without=("c",)), False, False),
    (Expect(attributes={"a": 1}, without=("b",)), False, False),
]
"""each condition, whether it holds for a missing record, and whether it holds for `STORED_RECORD`"""
