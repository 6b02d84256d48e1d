"""Loading records from JSON lines: accepted formats, and rejected lines."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from graphql_api.connection import open_catalog
from graphql_api.errors import EmptyKey
from graphql_api.ops import line_parser as module
from graphql_api.ops.loader import load_lines
from tests.ops.payments import PAYMENT, PAYMENTS, Colour, Payment, RecordingWriter, line, rejects_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The load file of a test."""
    return tmp_path / "payments.jsonl"


async def rejection_reason(file: Path, text: str | bytes) -> str:
    """The reason for which a single line is rejected."""
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert (done.written, done.rejected, writer.records) == (0, 1, {})
    (kept,) = rejects_of(file)
    return str(kept["reason"])


# --- accepted lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("last", ["", "end"], ids=["no-newline-at-the-end", "newline-at-the-end"])
async def test_line_ends(file: Path, end: str, last: str) -> None:
    """Lines end with LF or CRLF, may be blank, and the last one may lack its line end."""
    text = end.join(["", line(1), "", "  \t", line(2)]) + (end if last else "")
    file.write_bytes(text.encode())
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert [*writer.records] == ["p1", "p2"]
    assert (done.written, done.rejected, done.lines, done.offset) == (2, 0, 5, len(text))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


async def test_byte_order_mark(file: Path) -> None:
    """A byte order mark at the start of the file is ignored."""
    file.write_bytes(b"\xef\xbb\xbf" + line(1).encode())
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file)
    assert [*writer.records] == ["p1"]


async def test_empty_file(file: Path) -> None:
    """An empty file loads nothing and creates no files."""
    file.touch()
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert (done.written, done.rejected, writer.batches) == (0, 0, [])
    assert [path.name for path in file.parent.iterdir()] == [file.name]


async def test_stored_names_and_types(file: Path) -> None:
    """Lines contain stored names and the JSON form of each type; decimals keep all digits."""
    digits = "12345678901234567890123456789012345.678"
    file.write_text(
        line(
            1,
            paid=1726880933,
            weight=0.1,
            due="2026-02-28",
            seen="2026-02-28T12:00:00.000001+02:00",
            batch="12345678-1234-5678-1234-567812345678",
            colour="blue",
            notes={"a": 1},
        ).replace("{", f'{{"amt": {digits}, ', 1),
        encoding="utf-8",
    )
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file)
    assert writer.records["p1"] == Payment(
        payment_id="p1",
        paid=1726880933,
        amount=Decimal(digits),
        weight=0.1,
        due=date(2026, 2, 28),
        seen=datetime(2026, 2, 28, 10, 0, 0, 1, UTC),
        batch=UUID("12345678-1234-5678-1234-567812345678"),
        colour=Colour.BLUE,
        notes={"a": 1},
    )


async def test_exact_values_are_stored(file: Path, tmp_path: Path) -> None:
    """Dates, datetimes and decimals of 38 digits are stored exactly."""
    digits = "0.12345678901234567890123456789012345678"
    text = line(1, due="2024-02-29", seen="1969-12-31T23:59:59.999999Z").replace("{", f'{{"amt": {digits}, ', 1)
    file.write_text(text, encoding="utf-8")
    async with open_catalog(PAYMENTS, f"sqlite:///{tmp_path}/payments.db") as db:
        done = await load_lines(db.put_many, PAYMENT, file)
        found = await db.get(Payment, "p1")
    assert done.written == 1
    assert found is not None
    assert found.amount == Decimal(digits)
    assert found.due == date(2024, 2, 29)
    assert found.seen == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)


# --- rejected lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "The line is not valid JSON: "),
        ("{}{}", "The line is not valid JSON: Extra data"),
        ('{"paymentId": "a", "weight": NaN}', "NaN is not a number"),
        ('{"paymentId": "a", "weight": -Infinity}', "-Infinity is not a number"),
        ('{"paymentId": "a", "paid": 1e5000000}', "'1e5000000' is outside the range of numbers"),
        ('{"paymentId": "a", "paid": 1e-5000000}', "'1e-5000000' is outside the range of numbers"),
        ('{"paymentId": "a", "weight": 1e99999999999999999999}', "is outside the range of numbers"),
        ('{"paymentId": "a", "weight": 1e309}', "weight: Input should be a finite number"),
        (f'{{"paymentId": "a", "paid": {"9" * 5000}}}', "The line is not valid JSON: Exceeds the limit"),
        ("[" * 100_000, "The line is not valid JSON: "),
        ("[]", "A record must be a JSON object, not list."),
        ("null", "A record must be a JSON object, not NoneType."),
        ("7", "A record must be a JSON object, not int."),
        ('{"paymentId": "a", "amount": 1}', "Payment has no property 'amount'. Did you mean 'amt'?"),
        ('{"payment_id": "a"}', "Payment has no property 'payment_id'. Did you mean 'paymentId'?"),
        ('{"paymentId": "a", "\\ud800": 1}', "Payment has no property '\\ud800'."),
        ('{"paid": 1}', "paymentId: Field required"),
        ('{"paymentId": 1}', "paymentId: Input should be a valid string"),
        ('{"paymentId": null}', "paymentId: Input should be a valid string"),
        ('{"paymentId": "a", "paid": 1.5}', "paid: Input should be a valid integer"),
        ('{"paymentId": "a", "paid": 9007199254740993}', "paid: Input should be less than or equal to"),
        ('{"paymentId": "a", "amt": "x", "due": "2026-02-30"}', "amt: Input should be a valid decimal; due: Input"),
        ('{"paymentId": "a", "colour": "green"}', "colour: Input should be 'red' or 'blue'"),
        ('{"paymentId": "a", "notes": {"\\ud800": "x"}}', "notes"),
        (b'{"paymentId": "\xff"}', "The line is not valid JSON: 'utf-8' codec can't decode"),
        (b'{"paymentId": "\xed\xa0\x80"}', "The line is not valid JSON: 'utf-8' codec can't decode"),
    ],
)
async def test_invalid_line_is_rejected(file: Path, text: str | bytes, reason: str) -> None:
    """An invalid line is rejected with the reason, and with the nearest name for an unknown property."""
    assert reason in await rejection_reason(file, text)


@pytest.mark.parametrize(
    ("text", "property"),
    [
        ('{"paymentId": "\\ud800"}', "payment_id"),
        ('{"paymentId": ""}', "payment_id"),
        ('{"paymentId": "a", "amt": 1e200}', "amount"),
        ('{"paymentId": "a", "weight": 1e300}', "weight"),
        ('{"paymentId": "a", "notes": {"\\ud800": 1}}', "notes"),
    ],
    ids=["surrogate", "empty-key", "great-decimal", "great-float", "surrogate-inside"],
)
async def test_unstorable_line_is_rejected(file: Path, tmp_path: Path, text: str, property: str) -> None:
    """A line with a value that cannot be stored is rejected with the property name; other lines are written."""
    file.write_text(f"{text}\n{line(1)}\n", encoding="utf-8")
    async with open_catalog(PAYMENTS, f"sqlite:///{tmp_path}/payments.db") as db:
        done = await load_lines(db.put_many, PAYMENT, file)
    assert (done.written, done.rejected) == (1, 1)
    (kept,) = rejects_of(file)
    assert property in kept["reason"]


async def test_rejected_lines_are_kept(file: Path) -> None:
    """Each rejected line is kept with number, reason and text, in file order."""
    file.write_bytes("\r\n".join([line(1), "nö", "", line(2), line(3, amount=1), line(4)]).encode())
    writer = RecordingWriter(result_for=lambda payment: EmptyKey("No \ud800.") if payment.payment_id == "p2" else None)
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert (done.written, done.rejected, [*writer.records]) == (2, 3, ["p1", "p4"])
    no_json, refused, unknown = rejects_of(file)
    assert (no_json["line"], no_json["record"]) == (2, "nö")
    assert refused == {"line": 4, "reason": "No \ud800.", "record": line(2)}
    assert (unknown["line"], unknown["record"]) == (5, line(3, amount=1))


async def test_corrected_lines_can_be_loaded(file: Path) -> None:
    """Rejected lines can be corrected and loaded from another file."""
    file.write_text(f"{line(1)}\n{line(2, amount=1)}\n", encoding="utf-8")
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file)
    corrected = file.with_name("again.jsonl")
    corrected.write_text(
        "".join(kept["record"].replace("amount", "amt") for kept in rejects_of(file)), encoding="utf-8"
    )
    await load_lines(writer.put_many, PAYMENT, corrected)
    assert writer.records["p2"].amount == 1


async def test_overlong_line_is_rejected(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than any record is rejected without buffering it; later lines keep their numbers."""
    monkeypatch.setattr(module, "MAX_LINE_LENGTH", 100)
    overlong = line(2, colour="x" * 1000)
    file.write_text(f"{line(1)}\n{overlong}\n{line(3)}\n{overlong}", encoding="utf-8")
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert ([*writer.records], done.offset) == (["p1", "p3"], file.stat().st_size)
    assert [(kept["line"], kept["record"]) for kept in rejects_of(file)] == [(2, overlong[:101]), (4, overlong[:101])]


async def test_new_load_replaces_rejected_lines(file: Path) -> None:
    """A new load replaces the list of rejected lines of a finished load."""
    file.write_text(f"x\n{line(1)}\n", encoding="utf-8")
    await load_lines(RecordingWriter().put_many, PAYMENT, file)
    file.write_text(f"{line(1)}\ny\n", encoding="utf-8")
    await load_lines(RecordingWriter().put_many, PAYMENT, file)
    assert [kept["record"] for kept in rejects_of(file)] == ["y"]
    file.write_text(line(1), encoding="utf-8")
    await load_lines(RecordingWriter().put_many, PAYMENT, file)
    assert rejects_of(file) == []
