"""Capacity of records: sizes by DynamoDB's rules, shards, write units, storage, and the command `capacity`."""

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner, Result

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    derived,
    stored,
)
from graphql_api.cli import app
from graphql_api.errors import InvalidRecord, InvalidValue
from graphql_api.examples.users import catalog as users
from graphql_api.model.record_codec import decode_record, encode_record
from graphql_api.ops.record_capacity import (
    EntityCapacity,
    design_size,
    entity_capacity,
    records_per_partition,
    shards_for,
    typical_record,
)
from graphql_api.storage.capacity_units import index_entry, write_units
from graphql_api.storage.item_rules import attribute_size, record_size, value_size
from graphql_api.storage.values import IndexDefinition, TableDefinition
from graphql_api.writes.item_keys import to_item
from tests.examples.test_example_users import JASON

USERS = "graphql_api.examples.users:catalog"

DOCUMENT: Mapping[str, tuple[str | int, int]] = {
    "beneficiaryId": ("JCcwi4vyqwMJdaBwbjLG3", 21),
    "created": (1726880933, 8),
    "firstName": ("Jason", 5),
    "firstNameCanonical": ("jason", 5),
    "firstNameRangeKey": ("firstNameCanonical#jason|lastNameCanonical#williscroft|created#1726880933", 49),
    "hashKey": ("user", 4),
    "lastName": ("Williscroft", 11),
    "lastNameCanonical": ("williscroft", 11),
    "lastNameRangeKey": ("lastNameCanonical#williscroft|firstNameCanonical#jason|created#1726880933", 49),
    "rangeKey": ("userId#wf5yU_5f63gqauSOLpP5O", 28),
    "phone": ("17739999999", 11),
    "updated": (1726880933, 8),
    "userId": ("wf5yU_5f63gqauSOLpP5O", 21),
}
"""the storage table of the reference document: each attribute with its value and the stated bytes"""


# --- numbers of the reference document ---------------------------------------------------------------------------


def test_partitions_match_the_reference_document() -> None:
    """A partition holds 20 million records of 500 bytes, so that three billion records need 150 partitions."""
    assert records_per_partition(500) == 20_000_000
    assert shards_for(3_000_000_000, 500) == 150
    assert shards_for(3_000_000_001, 500) == 151
    assert (shards_for(20_000_000, 500), shards_for(20_000_001, 500), shards_for(1, 500)) == (1, 2, 1)


def test_partitions_of_large_records() -> None:
    """A partition holds 25,000 records of 400 KB."""
    assert records_per_partition(400_000) == 25_000


def test_design_size() -> None:
    """The design size is 1.5 times the record size, rounded up to 500 bytes: 231 bytes become 500."""
    assert [design_size(size) for size in (1, 231, 333, 334, 666, 667)] == [500, 500, 500, 1000, 1000, 1500]


def test_differences_from_the_reference_document() -> None:
    """The document states 231 bytes: it omits attribute names, counts numbers as 8 bytes, and two keys too short."""
    assert sum(message for _, message in DOCUMENT.values()) == 231
    counted = {name: value_size(value) for name, (value, _) in DOCUMENT.items()}
    assert {name: size - DOCUMENT[name][1] for name, size in counted.items() if size != DOCUMENT[name][1]} == {
        "created": -2,
        "updated": -2,
        "firstNameRangeKey": 24,
        "lastNameRangeKey": 24,
    }
    record = {name: value for name, (value, _) in DOCUMENT.items()}
    assert sum(map(len, record)) == 138
    assert record_size(record) == 231 - 2 * 2 + 2 * 24 + 138 == 413


def test_size_of_the_reference_record() -> None:
    """The user of the document takes 785 bytes here: properties, sortable keys, and the write id."""
    found = entity_capacity(users, users.entity("User"), [JASON], "one user")
    sizes = {part.name: part.bytes for part in found.attributes}
    properties = [part.name for part in found.attributes if not part.generated]
    assert {name: sizes[name] for name in properties} == {
        name: attribute_size(name, DOCUMENT[name][0]) for name in properties
    }
    assert properties == [
        *("userId", "beneficiaryId", "created", "updated", "firstName", "lastName", "phone"),
        *("firstNameCanonical", "lastNameCanonical"),
    ]
    assert {name: size for name, size in sizes.items() if name not in properties} == {
        "_w": 2 + 16,
        "hashKey": 7 + 5,
        "rangeKey": 8 + 28,
        "createdRangeKey": 15 + 8 + 20 + 2 + 28,
        "updatedRangeKey": 15 + 8 + 20 + 2 + 28,
        "phoneRangeKey": 13 + 17 + 2 + 28,
        "firstNameRangeKey": 17 + 24 + 2 + 29 + 2 + 28 + 2 + 28,
        "lastNameRangeKey": 16 + 29 + 2 + 24 + 2 + 28 + 2 + 28,
        "userBeneficiaryHashKey": 22 + 5 + 1 + 14 + 21,
    }
    assert (found.bytes, found.largest, found.design_bytes) == (785, 785, 1500)
    assert found.bytes == sum(sizes.values())


# --- entries, units, storage -------------------------------------------------------------------------------------


class Note(Entity, shards=Shards(4)):
    """An entity with indexes of all projections."""

    note_id: Id[str]
    topic: str | None = None
    text: str

    by_topic = Index(sort="topic")
    by_key = Index(hash="topic", projection="KEYS_ONLY")
    by_some = Index(hash="topic", projection=["text"])
    by_all = Index(sort="text", sharded=False, projection="KEYS_ONLY")


NOTES = Catalog(Note)


def notes(*records: Note, **planned: Any) -> EntityCapacity:
    """The capacity report for these notes."""
    return entity_capacity(NOTES, NOTES.entity(Note), records, "a test", **planned)


def test_entries_by_projection() -> None:
    """An index entry exists if the record has both keys. It contains all attributes, only keys, or keys and a list."""
    table = TableDefinition()
    item = {"hashKey": "h", "rangeKey": "r", "g": "1", "s": "2", "a": "3", "b": "4"}
    keys = {"hashKey": "h", "rangeKey": "r", "g": "1", "s": "2"}
    assert index_entry(table, IndexDefinition("one", "g", "s"), item) == item
    assert index_entry(table, IndexDefinition("one", "g", "s", "S", "KEYS_ONLY"), item) == keys
    assert index_entry(table, IndexDefinition("one", "g", "s", "S", ("a", "none")), item) == {**keys, "a": "3"}
    assert index_entry(table, IndexDefinition("one", "g", "other"), item) is None


def test_write_units_are_kilobytes() -> None:
    """A write unit is a started kilobyte."""
    assert [write_units(size) for size in (1, 1024, 1025, 2048, 2049)] == [1, 1, 2, 2, 3]


def test_units_over_indexes() -> None:
    """An update writes to indexes with all attributes; a move writes to each index twice."""
    found = notes(Note(note_id="n", topic="t", text="x" * 450))
    item = to_item(NOTES.entity(Note), Note(note_id="n", topic="t", text="x" * 450), None, "A" * 16)
    assert 1024 < record_size(item) <= 2048
    assert {index.name: (index.projection, index.write_units) for index in found.indexes} == {
        "topic": ("ALL", 2),
        "key": ("KEYS_ONLY", 1),
        "some": ("INCLUDE", 1),
        "all": ("KEYS_ONLY", 1),
    }
    assert (found.write_units.create, found.write_units.update, found.write_units.move) == (7, 4, 12)


def test_sparse_indexes() -> None:
    """Records without an entry in an index cost nothing there."""
    full, sparse = Note(note_id="n", topic="t", text="x"), Note(note_id="m", text="x")
    found, alone = notes(full, sparse), notes(full)
    assert {index.name: index.share for index in found.indexes} == {"topic": 0.5, "key": 0.5, "some": 0.5, "all": 1}
    assert [index.bytes for index in found.indexes] == [index.bytes for index in alone.indexes]
    assert found.write_units.create == 1 + 0.5 + 0.5 + 0.5 + 1
    assert {part.name: part.share for part in found.attributes}["topic"] == 0.5
    assert [index.name for index in notes(sparse).indexes] == ["all"]


def test_storage_counts_overhead() -> None:
    """Storage is the size of the record and its entries, plus 100 bytes for each."""
    found = notes(Note(note_id="n", topic="t", text="x"), records=1_000)
    entries = sum(index.bytes + 100 for index in found.indexes)
    assert found.storage.table_bytes == found.bytes + 100
    assert found.storage.all_bytes == found.bytes + 100 + entries
    assert found.storage.total_bytes == 1_000 * (found.bytes + 100 + entries)
    assert found.storage.multiplier == pytest.approx((found.bytes + 100 + entries) / (found.bytes + 100))


def test_tenant_adds_to_hash_keys() -> None:
    """A tenant adds its length to hash keys, in the table and in each index."""
    one = Note(note_id="n", topic="t", text="x")
    with_tenant = {part.name: part.bytes for part in notes(one, tenant="acme").attributes}
    plain = {part.name: part.bytes for part in notes(one).attributes}
    assert {name: size - plain[name] for name, size in with_tenant.items() if size != plain[name]} == dict.fromkeys(
        ("hashKey", "noteTopicHashKey", "noteUnshardedHashKey"), len("acme|")
    )


# --- shards ------------------------------------------------------------------------------------------------------


def test_too_few_shards_are_reported() -> None:
    """A report with more records than the newest generation can hold states the number of shards needed."""
    one = Note(note_id="n", text="x")
    enough, few = notes(one, records=80_000_000, design_bytes=500), notes(one, records=80_000_001, design_bytes=500)
    assert (enough.shards, enough.shards_needed, few.shards_needed) == (4, 4, 5)
    assert few.findings[0] == (
        "Note has 4 shards and needs 5 for 80,000,001 records of 500 bytes. "
        "Declare more shards, or add a generation with then(…)."
    )
    assert not [finding for finding in enough.findings if finding.startswith("Note has")]


def test_unsharded_index_is_reported() -> None:
    """An unsharded index holds at most one partition, regardless of the shards of its entity."""
    one = Note(note_id="n", text="x")
    entry = notes(one).indexes[0].bytes / notes(one).bytes * 500
    fits = int(10**10 // -(-entry // 1))
    assert notes(one, records=fits, design_bytes=500).findings == ()
    (finding,) = notes(one, records=fits + 1, design_bytes=500).findings
    assert finding.startswith("Note.by_all has one shard and needs 2")


def test_hash_properties_spread_an_index() -> None:
    """An index with hash properties has many hash keys, so that no finding is reported for its shards."""

    class Page(Entity, shards=Shards(1_000)):
        page_id: Id[str]
        book_id: str

        by_book = Index(hash="book_id", sharded=False)

    pages = Catalog(Page)
    found = entity_capacity(pages, pages.entity(Page), [Page(page_id="p", book_id="b")], "a test", records=10**9)
    assert (found.shards_needed, found.findings) == (50, ())


def test_no_findings_without_a_number_of_records() -> None:
    """Without a number of records, a report has no findings about shards."""
    found = notes(Note(note_id="n", text="x"))
    assert (found.records, found.shards_needed, found.storage.total_bytes, found.findings) == (None, None, None, ())


def test_report_without_records_is_refused() -> None:
    """A report without records is refused."""
    with pytest.raises(InvalidValue, match="no sample record of Note"):
        notes()


# --- typical records ---------------------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"
    ULTRAMARINE = "ultramarine"


class Place(BaseModel):
    city: str
    floor: int
    inside: "Place | None" = None


class Everything(Entity, shards=Shards(1).then(4, since=10)):
    """An entity with a property of every type."""

    some_id: Id[UUID]
    number: SubId[Int32]
    created: Created[TimestampMs]
    at: Timestamp
    day: date
    moment: datetime
    took: timedelta
    whole: int
    part: float
    price: Decimal
    flag: bool | None = None
    color: Color
    data: bytes
    words: list[str]
    tags: set[str]
    counts: dict[str, int]
    place: Annotated[Place, stored("where")]
    anything: Any
    shout: str = derived(str.upper, "name")
    name: str

    by_shout = Index(sort=["shout", "color", "moment", "price"])


EVERYTHING = Catalog(Everything)


def test_typical_records() -> None:
    """A typical record has a storable value for each property, with derived properties computed from them."""
    spec = EVERYTHING.entity(Everything)
    record = typical_record(spec)
    item = to_item(spec, record, None, "A" * 16)
    assert item.keys() >= {part.stored for part in spec.properties.values()} | {"shoutRangeKey"}
    again = decode_record(spec, item)
    assert encode_record(spec, again) == encode_record(spec, record)
    assert isinstance(again, Everything)
    assert (again.color, again.shout) == (Color.ULTRAMARINE, again.name.upper())
    assert (len(again.data), len(again.words), len(again.tags), len(again.counts)) == (100, 3, 1, 1)
    assert again.place.inside is not None


class Picky(Entity):
    picky_id: Id[str]
    half: int = derived(lambda name: int(name) // 2, "picky_id")


def test_typical_record_with_failing_derived_property() -> None:
    """A derived property that fails for typical values is reported with a remedy."""
    with pytest.raises(InvalidRecord, match=r"A typical Picky .*ValueError.* Provide sample records"):
        typical_record(Catalog(Picky).entity(Picky))


# --- command -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs commands in an empty directory."""
    monkeypatch.chdir(tmp_path)


def run(*words: str, width: int = 200) -> Result:
    """Runs one command and returns its result. Unexpected exceptions are raised."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": str(width), "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def reports(*words: str) -> dict[str, Any]:
    """The JSON report of the command, by entity."""
    return {each["entity"]: each for each in json.loads(run("capacity", *words, "--json").stdout)}


def test_capacity_of_the_example() -> None:
    """The command measures the sample of the module and prints the numbers of the reference document."""
    result = run("capacity", USERS, "--records", "User=3e9", "--design-bytes", "500", "--sample-records", "50")
    assert result.exit_code == 1
    assert "User: 50 records, sample(50) of graphql_api.examples.users" in result.stdout
    assert "20,000,000 records of that size" in result.stdout
    assert "16, and 150 needed for 3,000,000,000 records" in result.stdout
    assert "! User has 16 shards and needs 150 for 3,000,000,000 records of 500 bytes" in result.stdout
    assert "⚙   firstNameRangeKey        firstNameCanonical#" in result.stdout


def test_capacity_on_a_narrow_terminal() -> None:
    """On a narrow terminal, examples are shortened; names and sizes of attributes are complete."""
    result = run("capacity", USERS, "--sample-records", "50", width=80)
    shown = re.findall(r"^(?: ⚙ )? +(\w+) .* [\d.,]+ +\d+% *$", result.stdout, re.MULTILINE)
    reported = reports(USERS, "--sample-records", "50")["User"]["attributes"]
    assert {part["name"] for part in reported} <= {*shown}
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_capacity_as_json() -> None:
    """The JSON report contains all numbers by entity. With enough shards, the exit code is 0."""
    found = reports(USERS, "--records", "1e6", "--records", "Email=2_000_000", "--sample-records", "20")
    assert [(name, each["records"], each["shardsNeeded"]) for name, each in found.items()] == [
        ("User", 1_000_000, 1),
        ("Email", 2_000_000, 1),
    ]
    user = found["User"]
    assert user["recordsPerPartition"] == 10**10 // user["designBytes"]
    assert sum(part["bytes"] for part in user["attributes"]) == pytest.approx(user["bytes"])
    assert user["storage"]["multiplier"] == pytest.approx(user["storage"]["allBytes"] / user["storage"]["tableBytes"])
    assert user["writeUnits"]["create"] > len(user["indexes"])
    assert run("capacity", USERS, "--records", "1e6").exit_code == 0


def test_capacity_of_a_file() -> None:
    """`--sample` measures the records of a file, up to `--sample-records`."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "9").stdout_bytes)
    found = reports(USERS, "--sample", "User=users.jsonl", "--sample-records", "5")
    assert (found["User"]["source"], found["User"]["sampled"]) == ("users.jsonl", 5)
    assert found["Email"]["source"] == "sample(5) of graphql_api.examples.users"
    assert found["User"]["bytes"] == reports(USERS, "--sample-records", "5")["User"]["bytes"]


def test_capacity_of_a_module_without_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog without sample data is measured with a typical record, and the report says so."""
    source = "from graphql_api import *\nclass Row(Entity):\n    row_id: Id[str]\nrows = Catalog(Row)\n"
    Path("capacity_rows.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = reports("capacity_rows:rows").values()
    assert (found["source"], found["sampled"]) == ("generated: typical values of each type", 1)
    assert found["bytes"] == (5 + 21) + (2 + 16) + (7 + 4) + (8 + 6 + 21)


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["--records", "many"], 2, "'many' is not a number of records"),
        (["--records", "-5"], 2, "'-5' is not a number of records"),
        (["--records", "0.5"], 2, "'0.5' is not a number of records"),
        (["--records", "nan"], 2, "'nan' is not a number of records"),
        (["--records", "Usr=5"], 4, "Did you mean 'User'?"),
        (["--sample", "users.jsonl"], 2, "not of the form ENTITY=FILE"),
        (["--sample", "User=none.jsonl"], 2, "none.jsonl: No such file"),
        (["--sample", "User=bad.jsonl"], 2, "bad.jsonl, line 2: "),
        (["--sample", "User=empty.jsonl"], 2, "no sample record of User"),
        (["--design-bytes", "0"], 2, "--design-bytes"),
    ],
)
def test_invalid_capacity_arguments(words: list[str], exit_code: int, message: str) -> None:
    """Invalid arguments are refused with one line that names the location."""
    valid = run("sample", USERS, "User", "--count", "1").stdout_bytes
    Path("bad.jsonl").write_bytes(valid + b'{"userId": 5}\n')
    Path("empty.jsonl").touch()
    result = run("capacity", USERS, *words)
    assert result.exit_code == exit_code
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""
