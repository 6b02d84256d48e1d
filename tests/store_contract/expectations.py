"""Expectations of a record, and whether they hold where there is none and where there is one."""

from decimal import Decimal

import pytest

from graphql_api.storage.values import Expect, Key
from tests.store_contract.samples import record

STANDING = record(Key("h!", "r"), a=1, b=["x", 1], d=None)
"""the record"""

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
"""with each: whether it holds where nothing stands, and of the record above"""
