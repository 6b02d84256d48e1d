"""Findings: what is wrong with a stored item, and whether the rest of the table determines what is right."""

from dataclasses import dataclass, field
from enum import Enum

from graphql_api.codecs import readable_key
from graphql_api.storage import Key, TransactionWrite


class Damage(Enum):
    """The kinds of damage: name, meaning, and what to do about damage that cannot be derived from other data."""

    UNKNOWN_ENTITY = (
        "unknown-entity",
        "an item that belongs to no entity of the table",
        "Delete it, or open the table with the catalog that declares its entity.",
    )
    UNKNOWN_ITEM = (
        "unknown-item",
        "an item of a constraint, counter or lookup that the table does not have",
        "Find out which program wrote it, then delete it.",
    )
    INVALID_RECORD = (
        "invalid-record",
        "a record that does not fit its entity",
        "Correct its properties, or restore it from a backup.",
    )
    RECORD_KEY = (
        "record-key",
        "a record that is stored under the key of another id",
        "Find out whether key or id is right, then write the record again and delete this one.",
    )
    SHARD = (
        "shard",
        "a record that is not in the shard of its id and creation value",
        "Find out whether the creation value or the shard is right, then write the record again and delete this one.",
    )
    DOUBLED = (
        "doubled",
        "one id in two shards",
        "Compare both records, and delete the wrong one.",
    )
    INDEX_KEY = ("index-key", "an index key that is missing, wrong or superfluous", "")
    DERIVED_PROPERTY = ("derived-property", "a derived property that is missing, wrong or superfluous", "")
    PROPERTY_FORM = ("property-form", "a property in a form that searches do not find", "")
    WRITE_ID = ("write-id", "a record without a write id", "")
    DELETE_INTENT = ("delete-intent", "a delete intent that a stopped writer has left", "")
    EXPIRED = ("expired", "an item that expired long ago and was not removed", "")
    UNIQUE_ITEM = (
        "unique-item",
        "a unique item that is missing, wrong or belongs to another record",
        "",
    )
    DUPLICATE_VALUE = (
        "duplicate-value",
        "a unique value that two records have",
        "Change one of the two records.",
    )
    REFERENCE_ITEM = (
        "reference-item",
        "a reference item that is missing, wrong, superfluous or belongs to another record",
        "",
    )
    MISSING_PARENT = (
        "missing-parent",
        "a foreign key that references no record",
        "Create the referenced record, or change the reference.",
    )
    MAPPING_ITEM = ("mapping-item", "a mapping item of a lookup that is missing or wrong", "")
    VOID_ITEM = ("void-item", "a unique, reference or mapping item whose record does not have its value", "")
    CURRENT_RECORD = (
        "current-record",
        "a current record that is missing, doubled, or differs from the last entry",
        "",
    )
    MISSING_ENTRY = (
        "missing-entry",
        "a current record that copies an entry which does not exist",
        "Write the entry again from the current record, or put another entry, which corrects the current record.",
    )
    COUNTER = (
        "counter",
        "a counter that is missing, unreadable, or lower than a number that it assigned",
        "Set it to the greatest number that was ever assigned.",
    )
    STORED_RESPONSE = (
        "stored-response",
        "a stored response that cannot be read",
        "Delete it once no client can repeat its request.",
    )
    STREAM_POSITION = (
        "stream-position",
        "a position of a stream that cannot be read",
        "Restore it from a backup: without it, the events of the stream would be applied again.",
    )
    DEAD_LETTER = (
        "dead-letter",
        "a dead letter that cannot be read",
        "Delete it once its event is known from elsewhere.",
    )
    TABLE_RECORD = (
        "table-record",
        "an item of the table's own record that does not fit the others",
        "Stop all servers, and restore the table's own record from a backup.",
    )

    def __init__(self, label: str, meaning: str, remedy: str) -> None:
        self.label, self.meaning, self.remedy = label, meaning, remedy


def readable_item(key: Key) -> str:
    """Format the key of an item for people."""
    return f"{key.hash} / {readable_key(key.range)}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage of one item."""

    damage: Damage
    record: Key
    """the item that is damaged, or missing"""
    reason: str
    elements: tuple[str, ...] = ()
    """the elements of the table that the item does not comply with"""
    other: Key | None = None
    """the record that determines what is right, or that conflicts with it"""
    is_derivable: bool = True
    """other data determines what is right, so that a repair restores it"""
    is_repaired: bool = False

    @property
    def identity(self) -> tuple[str, Key, tuple[str, ...]]:
        """Return what is equal for findings of the same damage."""
        return self.damage.label, self.record, self.elements

    def __str__(self) -> str:
        other = "" if self.other is None else f" (see {readable_item(self.other)})"
        return f"{readable_item(self.record)}: {self.reason}{other}"


@dataclass(slots=True)
class Inspection:
    """What an inspection of one item has found, and the writes that repair what can be derived."""

    findings: list[Finding] = field(default_factory=list)
    writes: list[TransactionWrite] = field(default_factory=list)
    """one transaction; its conditions require that nothing has changed"""
    moved_to: Key | None = None
    """where the writes move the item"""

    def add(self, finding: Finding, *writes: TransactionWrite) -> None:
        """Add a finding, and the writes that repair it."""
        self.findings.append(finding)
        self.writes += writes
