"""Scalars of every type: output forms, input forms, ranges and derived properties."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Index,
    Int32,
    Shards,
    Timestamp,
    TimestampMs,
    canonical,
    derived,
    desc,
    stored,
)
from tests.schema.graphql_client import open_client


class Level(Enum):
    """Declared in another order than the stored values sort."""

    LOW = "z"
    HIGH = "a"


class Grade(IntEnum):
    """An enum of integers."""

    GOOD = 1
    BAD = 5


class Shade(StrEnum):
    """An enum of strings."""

    DARK = "dark"
    LIGHT = "light"


class Everything(Entity, shards=Shards(2)):
    """A record with a property of every type."""

    key: Id[str]
    big: int = 0
    small: Int32 = 0
    real: float = 0.0
    amount: Decimal = Decimal(0)
    flag: bool = False
    text: str = "-"
    uuid: UUID = UUID(int=0)
    day: date = date(2026, 1, 1)
    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    span: timedelta = timedelta()
    seconds: Timestamp = 0
    millis: TimestampMs = 0
    level: Level = Level.LOW
    grade: Grade = Grade.GOOD
    shade: Shade = Shade.DARK
    one_of: Literal["x", "y"] = "x"
    renamed: Annotated[int, stored("rn")] = 0
    nothing: str | None = None

    by_big = Index(sort="big", slot="gsi01")
    by_small = Index(sort="small", slot="gsi02")
    by_real = Index(sort=desc("real"), slot="gsi03")
    by_amount = Index(sort="amount", slot="gsi04")
    by_flag = Index(sort="flag", slot="gsi05")
    by_text = Index(sort="text", slot="gsi06")
    by_uuid = Index(sort="uuid", slot="gsi07")
    by_day = Index(sort=desc("day"), slot="gsi08")
    by_moment = Index(sort="moment", slot="gsi09")
    by_span = Index(sort="span", slot="gsi10")
    by_seconds = Index(sort="seconds", slot="gsi11")
    by_millis = Index(sort="millis", slot="gsi12")
    by_level = Index(sort="level", slot="gsi13")
    by_grade = Index(sort="grade", slot="gsi14")
    by_shade = Index(sort="shade", slot="gsi15")
    by_one_of = Index(sort="one_of", slot="gsi16")
    by_renamed = Index(hash="renamed", slot="gsi17")


CATALOG = Catalog(Everything)
EAST = timezone(timedelta(hours=5, minutes=45))

VALUES: list[tuple[str, str, Any, Any, list[Any]]] = [
    # property, type, Python value, output form, further input forms
    ("big", "BigInt", 2**63 - 1, str(2**63 - 1), [2**63 - 1, str(2**63 - 1)]),
    ("big", "BigInt", -(2**63), str(-(2**63)), [-(2**63)]),
    ("big", "BigInt", 7, "7", [7, "7", 7.0]),
    ("small", "Int", -(2**31), -(2**31), [-(2**31)]),
    ("real", "Float", 1.5, 1.5, [1.5]),
    ("real", "Float", 3.0, 3.0, [3]),
    ("real", "Float", -1e100, -1e100, [-1e100]),
    ("amount", "Decimal", Decimal("1.50"), "1.5", ["1.50", "1.5", 1.5, "15E-1"]),
    ("amount", "Decimal", Decimal(-7), "-7", [-7, "-7", -7.0]),
    (
        "amount",
        "Decimal",
        Decimal("1234567890123456789012345678901234567.8"),
        "1234567890123456789012345678901234567.8",
        [],
    ),
    ("flag", "Boolean", True, True, [True]),
    ("text", "String", "é|\x00\U0001f600\"'\\", "é|\x00\U0001f600\"'\\", []),
    ("uuid", "UUID", UUID(int=2**127), str(UUID(int=2**127)), [str(UUID(int=2**127)).upper()]),
    ("day", "Date", date(2024, 2, 29), "2024-02-29", []),
    (
        "moment",
        "DateTime",
        datetime(2026, 2, 3, 10, 0, 0, 500, tzinfo=EAST),
        "2026-02-03T04:15:00.000500Z",
        ["2026-02-03T10:00:00.0005+05:45", "2026-02-02T23:15:00.000500-05:00", "2026-02-03T04:15:00.0005Z"],
    ),
    (
        "span",
        "Duration",
        timedelta(days=1, hours=2, microseconds=5),
        "P1DT7200.000005S",
        ["P1DT2H0.000005S", "PT26H0.000005S"],
    ),
    ("span", "Duration", -timedelta(minutes=1), "-PT60S", ["-PT1M"]),
    ("seconds", "Timestamp", 2**53, 2**53, [float(2**53)]),
    ("seconds", "Timestamp", -(2**53), -(2**53), []),
    ("millis", "TimestampMs", 1_700_000_000_123, 1_700_000_000_123, []),
    ("level", "Level", Level.HIGH, "HIGH", []),
    ("grade", "Grade", Grade.BAD, "BAD", []),
    ("shade", "Shade", Shade.LIGHT, "LIGHT", []),
    ("one_of", "String", "y", "y", []),
]


@pytest.mark.parametrize(("name", "scalar", "value", "out", "further"), VALUES, ids=lambda value: str(value)[:30])
async def test_output_and_input_forms(
    tmp_path: Path, name: str, scalar: str, value: Any, out: Any, further: list[Any]
) -> None:
    """A value has one output form, and several input forms."""
    field = "oneOf" if name == "one_of" else name
    record = Everything.model_validate({"key": "k", name: value})
    other = Everything.model_validate({"key": "other", "text": "other"})
    async with open_client(CATALOG, tmp_path, record, other) as client:
        assert await client.data(f'{{ everything(id: "k") {{ {field} }} }}') == {"everything": {field: out}}
        schema = client.executor.schema._schema
        query = schema.query_type
        assert query is not None
        index = f"everythingBy{field[0].upper()}{field[1:]}"
        assert str(query.fields[index].args["eq"].type) == scalar
        for given in [out, *further]:
            found = await client.data(
                f"query ($v: {scalar}!) {{ flat: {index}(eq: $v) {{ items {{ key }} }} "
                f"own: {index}({field}: {{eq: $v}}) {{ items {{ key }} }} }}",
                {"v": given},
            )
            assert found == {"flat": {"items": [{"key": "k"}]}, "own": {"items": [{"key": "k"}]}}, given


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ('everythingByBig(from: 5, to: "20")', "ab"),
        ("everythingByReal(from: 0.5, to: 2.5)", "ba"),
        ("everythingByReal(real: {from: 1.5})", "ba"),
        ('everythingByDay(day: {between: {from: "2026-06-01", to: "2027-01-01"}})', "ba"),
        ('everythingByMoment(from: "2026-06-01T02:00:00+02:00")', "ab"),
        ("everythingByLevel(level: {from: HIGH})", "b"),
        ("everythingByLevel", "aob"),
        ("everythingByGrade(to: GOOD)", "ao"),
        ("everythingByFlag(eq: true)", "b"),
        ('everythingByUuid(from: "00000000-0000-0000-0000-000000000001")', "ab"),
        ('everythingBySpan(to: "P1D")', "oa"),
        ('everythingByAmount(amount: {between: {from: 1, to: "1e1"}}, reverse: true)', "ba"),
        ("everythingByRenamed(renamed: 1)", "b"),
    ],
)
async def test_ranges_of_scalars(tmp_path: Path, given: str, keys: str) -> None:
    """Ranges follow the order of values and the direction of the index; enums follow declaration order."""
    records = [
        Everything(key="o"),
        Everything(key="a", big=5, real=1.5, day=date(2026, 6, 1), moment=datetime(2026, 6, 1, tzinfo=UTC)).model_copy(
            update={"uuid": UUID(int=1), "span": timedelta(days=1), "amount": Decimal(1)}
        ),
        Everything(key="b", big=20, real=2.5, day=date(2027, 1, 1), moment=datetime(2026, 6, 2, tzinfo=UTC), flag=True)
        .model_copy(update={"uuid": UUID(int=2), "span": timedelta(days=2), "amount": Decimal(10), "renamed": 1})
        .model_copy(update={"level": Level.HIGH, "grade": Grade.BAD}),
    ]
    async with open_client(CATALOG, tmp_path, *records) as client:
        found = await client.data(f"{{ page: {given} {{ items {{ key }} }} }}")
        assert [item["key"] for item in found["page"]["items"]] == [*keys]


# --- derived properties ----------------------------------------------------------------------------------------


class Person(Entity):
    """A person."""

    person_id: Id[str]
    last_name: str
    created: Created[Timestamp] = 0
    folded: str = derived(canonical, "last_name")
    initial: str = derived(lambda name: name[:1], "folded")
    length: int = derived(len, "last_name")

    by_folded = Index(sort=["folded", "created"])
    by_initial = Index(hash="initial", sort="length")


async def test_derived_properties(tmp_path: Path) -> None:
    """Arguments are derived as stored values are, in every argument of the property."""
    gomez = Person(person_id="p", last_name="Gómez-Juárez")
    async with open_client(Catalog(Person), tmp_path, gomez) as client:
        for given in (
            'personByFolded(eq: "GOMEZ JUAREZ")',
            'personByFolded(prefix: "Góm")',
            'personByFolded(folded: {eq: "Gómez-Juárez"}, created: {eq: 0})',
            'personByFolded(from: "Gömez", to: "GÓMEZ-Z")',
            'personByInitial(initial: "golf", eq: 12)',
        ):
            found = await client.data(f"{{ page: {given} {{ items {{ lastName folded initial length }} }} }}")
            assert found["page"]["items"] == [
                {"lastName": "Gómez-Juárez", "folded": "gomezjuarez", "initial": "g", "length": "12"}
            ], given
