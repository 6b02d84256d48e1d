"""Items that projections keep: the position of each stream, and dead letters (docs/reference/table-format.md)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from graphql_api.codecs import (
    SEP,
    Column,
    Int64,
    Text,
    decode_tuple,
    encode_tuple,
    hash_key,
    hash_key_parts,
    key_segment,
)
from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.projections.projection_functions import Projection
from graphql_api.storage import AttributeValue, Item, Key, is_number
from graphql_api.writes import item_at, item_key

STREAM_KIND, LETTER_KIND = "stream", "dead"
"""what follows `shardql~` in the hash keys of positions and dead letters"""

LAST_SEQ, STOPPED_AT = "_seq", "_stopped"
"""attributes of a position: the last event that is done with, and the dead letter at which the stream has stopped"""
EVENT, REASON, CODE, FAILED_AT, ATTEMPTS, DROPPED = "_event", "_reason", "_code", "_failed", "_attempts", "_dropped"
"""attributes of a dead letter"""

MAX_REASON_LENGTH = 2_000
MAX_UNREADABLE_BYTES = 64 * 1024
"""what a dead letter keeps of a text that is no event"""

_STREAM = (Column("stream", Text()),)
_LETTER = (Column("projection", Text()), *_STREAM, Column("seq", Int64()))
_UNREADABLE = "unreadable"


# --- positions of streams --------------------------------------------------------------------------------------


def stream_key(projection: Projection, stream: str, tenant: str | None) -> Key:
    """Return the key of the position of a stream. The first hex digit of a digest selects one of 16 shards."""
    digit = blake2b(stream.encode(), digest_size=1).hexdigest()[0]
    values = [("source", projection.source), ("projection", projection.stored_name)]
    return Key(hash_key(f"shardql~{STREAM_KIND}", digit, values, tenant), encode_tuple(_STREAM, [stream]))


def projection_items(source: str, stored_name: str) -> list[dict[str, object]]:
    """Return where the positions and dead letters of one version of a projection are, as the table's record has it."""
    letters = f"{encode_tuple(_LETTER[:1], [stored_name])}{SEP}"
    own = [["source", source], ["projection", stored_name]]
    return [
        {"head": f"shardql~{STREAM_KIND}", "values": own, "prefix": ""},
        {"head": f"shardql~{LETTER_KIND}", "values": own[:1], "prefix": letters},
    ]


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A position, as a scan of the table finds it."""

    source: str
    projection: str
    tenant: str | None
    stream: str
    last_seq: int

    @staticmethod
    def of(item: Item) -> "StoredPosition | None":
        """Return the position in an item; None if it is another item."""
        parts = hash_key_parts(item["hashKey"])
        if parts is None or parts.head != f"shardql~{STREAM_KIND}" or not is_number(item.get(LAST_SEQ)):
            return None
        values = dict(parts.values)
        (stream,) = decode_tuple(_STREAM, item["rangeKey"])
        return StoredPosition(values["source"], values["projection"], parts.tenant, stream, int(item[LAST_SEQ]))


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a projection has come in a stream."""

    key: Key
    item: Item | None
    """the stored item, or None"""
    last_seq: int
    """the last event that was applied, or became a dead letter"""
    stopped_at: int | None
    """the dead letter at which the stream has stopped"""

    @staticmethod
    def of(projection: Projection, key: Key, item: Item | None) -> "StreamPosition":
        """Return the position in a stored item."""
        if item is None:
            return StreamPosition(key, None, projection.first_seq - 1, None)
        stopped_at = item.get(STOPPED_AT)
        return StreamPosition(key, item, int(item[LAST_SEQ]), None if stopped_at is None else int(stopped_at))

    def equals(self, other: "StreamPosition") -> bool:
        """Return whether two positions are the same, apart from who wrote them."""
        return (self.last_seq, self.stopped_at) == (other.last_seq, other.stopped_at)

    def moved(self, last_seq: int, stopped_at: int | None = None) -> Item:
        """Return the item of the next position."""
        stopped = {} if stopped_at is None else {STOPPED_AT: stopped_at}
        return item_at(self.key, {LAST_SEQ: last_seq, **stopped})


# --- dead letters ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be applied, or a text that is no event."""

    projection: str | None
    """None: the text is no event, and concerns all projections of its source"""
    stream: str
    seq: int
    event: bytes
    reason: str
    code: str
    failed_at: int
    """seconds since 1970"""
    attempts: int
    item: Item
    is_dropped: bool = False
    """lists omit the letter; it is kept so that its event does not become a dead letter again"""

    @property
    def key(self) -> Key:
        """Return the key of the item."""
        return item_key(self.item)

    @property
    def id(self) -> str:
        """Return the name of the letter on the command line: `order_tracking:3:order-7`."""
        if self.projection is None:
            return self.key.range.replace("#", ":", 1)
        return f"{self.projection}:{self.seq}:{self.stream}"

    def as_json(self) -> dict[str, AttributeValue]:
        """Return the letter as JSON."""
        time = f"{datetime.fromtimestamp(self.failed_at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        event = self.event.decode(errors="replace")
        parts = {"projection": self.projection, "stream": self.stream, "seq": self.seq}
        known = {} if self.projection is None else parts
        details = {"code": self.code, "reason": self.reason, "failedAt": time, "attempts": self.attempts}
        return {"id": self.id, **known, **details, "event": event}


def letters_hash_key(source: str, tenant: str | None) -> str:
    """Return the hash key of the dead letters of a source."""
    return hash_key(f"shardql~{LETTER_KIND}", "", [("source", source)], tenant)


def letter_key(projection: Projection, stream: str, seq: int, tenant: str | None) -> Key:
    """Return the key of the dead letter of an event."""
    range_key = encode_tuple(_LETTER, [projection.stored_name, stream, seq])
    return Key(letters_hash_key(projection.source, tenant), range_key)


def letter_item(key: Key, event: bytes, problem: ShardQLError, now: float, attempts: int) -> Item:
    """Return the item of a dead letter."""
    reason = problem.message[:MAX_REASON_LENGTH].encode(errors="replace").decode()
    values = {EVENT: event, REASON: reason, CODE: problem.code, FAILED_AT: int(now), ATTEMPTS: attempts}
    return item_at(key, values)


def unreadable_key(source: str, text: bytes, tenant: str | None) -> Key:
    """Return the key of the dead letter of a text that is no event."""
    digest = blake2b(text, digest_size=16).hexdigest()
    return Key(letters_hash_key(source, tenant), key_segment(_UNREADABLE, digest))


def read_letter(item: Item) -> DeadLetter:
    """Return the dead letter in an item. Raise `InvalidValue` if it is none."""
    try:
        name, stream, seq = None, "", 0
        if not item["rangeKey"].startswith(f"{_UNREADABLE}#"):
            name, stream, seq = decode_tuple(_LETTER, item["rangeKey"])
        details = (item[EVENT], item[REASON], item[CODE], int(item[FAILED_AT]), int(item[ATTEMPTS]))
        return DeadLetter(name, stream, seq, *details, item, bool(item.get(DROPPED)))
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidValue("The item is no dead letter.") from problem


# --- verification ----------------------------------------------------------------------------------------------


def unreadable_part(item: Item) -> str | None:
    """Return what is wrong with an item under the hash key of a position or of dead letters; None if nothing is."""
    parts = hash_key_parts(item["hashKey"])
    assert parts is not None, "the caller has parsed it"
    names = [name for name, _ in parts.values]
    try:
        if parts.kind == LETTER_KIND:
            read_letter(item)
            return None if names == ["source"] else "projections cannot read it"
        decode_tuple(_STREAM, item["rangeKey"])
    except ShardQLError:
        return "projections cannot read it"
    is_position = is_number(item.get(LAST_SEQ)) and is_number(item.get(STOPPED_AT, 0))
    return None if is_position and names == ["source", "projection"] else "projections cannot read it"
