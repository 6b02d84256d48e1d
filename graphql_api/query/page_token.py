"""What a page token says, packed tight: one place in the answer, however many shards there are (docs/tokens.md)."""

from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b

from graphql_api.codecs import RangeValue
from graphql_api.errors import InvalidToken

FORM = 1
_HINT, _LAGGING = 0x40, 0x80
_DIGEST = 8
_WORDS = 40
_LARGEST_NUMBER = 200
"""as a power of ten: beyond what any engine keeps"""
_GAP, _TEXT, _TEXT_WITH_KEY, _NUMBER_WITH_KEY = range(4)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where a record lives in its own entity's shards: needed only where rows of an index may tie."""

    ordinal: int
    range_key: str


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the order of an answer: behind one record, or (no value) in the gap before an index."""

    index: int
    value: RangeValue | None = None
    ordinal: int = 0
    record: RecordPlace | None = None


@dataclass(frozen=True, slots=True)
class Lagging:
    """Shards that stand at an earlier place than the others, since they failed."""

    place: Place
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PageToken:
    """Everything that a token carries. The digests tie it to one search; the words are for people."""

    issued_hour: int
    generations: int
    index_digest: bytes
    search_digest: bytes
    words: str
    place: Place
    hint: int = 0
    lagging: tuple[Lagging, ...] = ()


def digest(*parts: object) -> bytes:
    """Eight octets that differ when any part does."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def short_words(words: str, most_octets: int = _WORDS) -> str:
    """As much of a text as a token carries, marked where it was cut."""
    octets = words.encode()
    if len(octets) <= most_octets:
        return words
    cut = "…"
    return octets[: most_octets - len(cut.encode())].decode(errors="ignore") + cut


# --- writing ---------------------------------------------------------------------------------------------------


def pack(token: PageToken) -> bytes:
    """The token as octets, to be sealed."""
    form = FORM | (_HINT if token.hint else 0) | (_LAGGING if token.lagging else 0)
    words = token.words.encode()
    out = bytearray((form,))
    out += token.issued_hour.to_bytes(3, "big")
    _put_number(out, token.generations)
    out += token.index_digest + token.search_digest
    out.append(len(words))
    out += words
    if token.hint:
        out.append(token.hint)
    _put_place(out, token.place, closes=not token.lagging)
    for lagging in token.lagging:
        _put_place(out, lagging.place, closes=False)
        _put_number(out, len(lagging.ordinals))
        before = 0
        for ordinal in sorted(lagging.ordinals):
            _put_number(out, ordinal - before)
            before = ordinal
    return bytes(out)


def _put_place(out: bytearray, place: Place, *, closes: bool) -> None:
    """A place whose last text closes the token needs no length for it."""
    if place.value is None:
        _put_number(out, place.index << 2 | _GAP)
        return
    number = not isinstance(place.value, str)
    kind = _NUMBER_WITH_KEY if number else _TEXT if place.record is None else _TEXT_WITH_KEY
    _put_number(out, place.index << 2 | kind)
    _put_number(out, place.ordinal)
    _put_text(out, str(place.value), closes=closes and place.record is None)
    if place.record is not None:
        _put_number(out, place.record.ordinal)
        _put_text(out, place.record.range_key, closes=closes)


def _put_number(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    out.append(number)


def _put_text(out: bytearray, text: str, *, closes: bool) -> None:
    octets = text.encode()
    if not closes:
        _put_number(out, len(octets))
    out += octets


# --- reading ---------------------------------------------------------------------------------------------------


def unpack(payload: bytes, argument: str) -> PageToken:
    """Reads what `pack` wrote; a payload of another form comes from another release."""
    try:
        return _Reader(payload).token()
    except (IndexError, ValueError, ArithmeticError) as problem:
        raise InvalidToken(
            f"{argument} was made by another release of this service: leave it out to begin anew.", argument=argument
        ) from problem


class _Reader:
    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def token(self) -> PageToken:
        form = self._octet()
        if form & ~(_HINT | _LAGGING) != FORM:
            raise ValueError("another form")
        return PageToken(
            issued_hour=int.from_bytes(self._some(3), "big"),
            generations=self._number(),
            index_digest=self._some(_DIGEST),
            search_digest=self._some(_DIGEST),
            words=self._some(self._octet()).decode(),
            hint=self._octet() if form & _HINT else 0,
            place=self._place(closes=not form & _LAGGING),
            lagging=self._lagging() if form & _LAGGING else self._end(),
        )

    def _lagging(self) -> tuple[Lagging, ...]:
        found = []
        while self._at < len(self._octets):
            place, ordinals, last = self._place(closes=False), list[int](), 0
            for _ in range(self._number()):
                last += self._number()
                ordinals.append(last)
            found.append(Lagging(place, tuple(ordinals)))
        return tuple(found)

    def _end(self) -> tuple[Lagging, ...]:
        if self._at != len(self._octets):
            raise ValueError("something is left")
        return ()

    def _place(self, *, closes: bool) -> Place:
        index, kind = divmod(self._number(), 4)
        if kind == _GAP:
            return Place(index)
        ordinal, text = self._number(), self._text(closes=closes and kind == _TEXT)
        value: RangeValue = _to_number(text) if kind == _NUMBER_WITH_KEY else text
        record = None if kind == _TEXT else RecordPlace(self._number(), self._text(closes=closes))
        return Place(index, value, ordinal, record)

    def _octet(self) -> int:
        return self._some(1)[0]

    def _some(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._octets):
            raise IndexError("cut short")
        return self._octets[self._at - count : self._at]

    def _number(self) -> int:
        number = shift = 0
        while True:
            octet = self._octet()
            number |= (octet & 0x7F) << shift
            if octet < 0x80:
                return number
            shift += 7

    def _text(self, *, closes: bool) -> str:
        return self._some(len(self._octets) - self._at if closes else self._number()).decode()


def _to_number(text: str) -> int | Decimal:
    number = Decimal(text)
    if not number.is_finite() or number.adjusted() > _LARGEST_NUMBER:
        raise ValueError("no number of an index")
    return int(number) if number == number.to_integral_value() else number
