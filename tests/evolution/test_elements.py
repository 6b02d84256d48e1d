"""Elements: definitions as data, which survive every engine and give the specifications that servers act on."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any
from uuid import UUID

import pytest

from graphql_api.errors import CatalogBehind
from graphql_api.evolution.elements import (
    Element,
    declared_elements,
    element_of_id,
    index_from_data,
    part_data,
    part_from_data,
    unique_from_data,
    with_more_members,
)
from graphql_api.evolution.proposals import proposed
from graphql_api.evolution.table_record import TableRecord
from graphql_api.model import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    Timestamp,
    TimestampMs,
    Ttl,
    Unique,
    UniqueTogether,
    Version,
    counter,
    derived,
    desc,
    stored,
)
from graphql_api.storage import Item
from graphql_api.storage.engines.dynamodb.wire_format import decode_item, encode_item
from graphql_api.storage.record_body import decode_body, encode_body

ENGINES: list[Callable[[Item], Item]] = [
    lambda item: decode_body(encode_body(item)),
    lambda item: decode_item(encode_item(item)),
]


class Size(Enum):
    """An enum of texts."""

    SMALL = "s"
    LARGE = "l"


class Level(IntEnum):
    """An enum of numbers."""

    LOW = 1
    HIGH = 5


class Shop(Entity):
    """A parent."""

    shop_id: Id[str]


class Article(Entity, shards=Shards(2).then(4, since=1_000).then(8, since=2_000)):
    """An entity with every kind of element, and a property of every codec with a default."""

    size: Id[Size]
    number: Id[int]
    created: Created[Timestamp]
    expires: Ttl[Timestamp] | None = None
    revision: Version[Int32]
    tags: Immutable[tuple[str, ...]] = ()
    code: Unique[str] | None = None
    shop_id: str | None = None
    position: int = counter("shop_id")
    text: str = ""
    big: int = -(2**63)
    small: Int32 = 7
    seconds: Timestamp = 5
    milliseconds: TimestampMs = 6
    unique_id: UUID = UUID(int=1)
    day: date = date(2026, 1, 31)
    moment: datetime = datetime(2026, 1, 31, 12, 30, 0, 5, UTC)
    duration: timedelta = timedelta(days=-3, microseconds=1)
    amount: Decimal = Decimal("1E+100")
    ratio: float = 1e-100
    is_open: bool = False
    level: Level = Level.HIGH
    lower: str | None = derived(str.lower, "text")

    of_shop = ForeignKey("Shop", by="shop_id")
    text_and_level = UniqueTogether("text", "level")
    by_lower = Index(hash="lower", sort=desc("small"), projection=["text", "amount"])
    by_shop = Index(hash="shop_id", sharded="Shop")
    by_level = Index(hash="level", sharded=False, sort=("amount", "day"))
    by_text = Index(hash=("big", "ratio"), sort="text", raw=True)


CATALOG = Catalog(Shop, Article)
ARTICLE = CATALOG.entity(Article)
SCALARS = [part for part in ARTICLE.properties.values() if part.codec is not None]


@pytest.mark.parametrize("engine", ENGINES, ids=["sqlite", "dynamodb"])
def test_a_record_survives_its_engine(engine: Callable[[Item], Item]) -> None:
    """A stored record equals the one that was written: same elements, same digests, same enums."""
    record = proposed(TableRecord(lease_seconds=0.25), CATALOG)
    read = TableRecord.from_item(engine(record.to_item()))
    assert read == record
    assert {key: one.element.digest for key, one in read.elements.items()} == {
        key: one.element.digest for key, one in record.elements.items()
    }
    assert all(read.elements[key].element.fits(element) for key, element in declared_elements(CATALOG).items())
    assert proposed(read, CATALOG) is read


@pytest.mark.parametrize("engine", ENGINES, ids=["sqlite", "dynamodb"])
@pytest.mark.parametrize("part", SCALARS, ids=lambda part: part.name)
def test_a_recorded_property_stores_and_sorts_as_the_declared_one(part: Any, engine: Callable[[Item], Item]) -> None:
    """A property read from the record has the declared default, and encodes each stored value as the declared one."""
    recorded = part_from_data(engine({"part": part_data(part)})["part"])
    default = part.default if part.default is not None else part.codec.samples.typical
    value = part.codec.store(default)
    assert recorded.stored == part.stored
    assert recorded.column.encode(recorded.column.codec.load(value)) == part.column.encode(default)
    if part.default is None:
        assert recorded.default is None
    else:
        assert recorded.column.codec.store(recorded.default) == value


def test_recorded_indexes_and_constraints_equal_the_declared_ones() -> None:
    """An index or unique constraint read from the record has the keys, order and projection of the declared one."""
    record = TableRecord.from_item(ENGINES[1](proposed(TableRecord(), CATALOG).to_item()))
    for index in ARTICLE.indexes.values():
        if index.physical is None:
            continue
        read = index_from_data(record.elements[f"article index {index.physical}"].element, index.space)
        assert read.definition == index.definition
        assert [(one.name, one.codec.name, one.descending) for one in read.columns] == [
            (one.name, one.codec.name, one.descending) for one in index.columns
        ]
        for name in ("hash_entity", "hash_attribute", "range_attribute", "is_sharded", "sharded_like_parent", "raw"):
            assert getattr(read, name) == getattr(index, name), name
        assert [part.stored for part in read.hash] == [part.stored for part in index.hash]
    for unique in ARTICLE.unique:
        read_unique = unique_from_data(record.elements[f"article unique {unique.name}"].element)
        assert [part.stored for part in read_unique.parts] == [part.stored for part in unique.parts]


def test_ids_name_elements() -> None:
    """The id of an element in the record tells its entity, kind and name."""
    for element in declared_elements(CATALOG).values():
        assert element_of_id(element.id, element.definition) == element
    assert len(declared_elements(CATALOG)) == len({str(element) for element in declared_elements(CATALOG).values()})


def test_digests_are_pinned() -> None:
    """Digests never change between releases, since servers of two releases compare them."""
    pinned = {
        "shop property shopId": "bf78e4",
        "article index lower": "a774b9",
        "article unique textAndLevel": "186783",
        "article foreign key ofShop": "5d0c1b",
        "article generation 1": "c68ccb",
        "article server-set position.counter": "944c86",
    }
    elements = declared_elements(CATALOG)
    assert {key: elements[key].digest[:6] for key in pinned} == pinned


def catalog_with(properties: dict[str, Any], **attributes: Any) -> Catalog:
    """A catalog of one entity with these annotations."""
    namespace = {"__module__": __name__, "__annotations__": {"item_id": Id[str], **properties}, **attributes}
    return Catalog(type("Item", (Entity,), namespace))


def index_element(catalog: Catalog) -> Element:
    """The only index of a catalog."""
    (element,) = (one for one in declared_elements(catalog).values() if one.kind == "index")
    return element


def test_python_names_have_no_effect() -> None:
    """Renaming a property or an index in Python keeps the element, if the stored names stay."""
    town = index_element(catalog_with({"town": str}, by_town=Index(hash="town", name="towns")))
    city = index_element(
        catalog_with({"city": Annotated[str, stored("town")]}, by_city=Index(hash="city", name="towns"))
    )
    assert town.id == city.id
    assert town.fits(city)


@pytest.mark.parametrize(
    "other",
    [
        catalog_with({"town": str, "name": str}, by_town=Index(hash="town", sort="name", name="towns")),
        catalog_with({"town": int}, by_town=Index(hash="town", name="towns")),
        catalog_with({"town": str}, by_town=Index(hash="town", name="towns", sharded=False)),
        catalog_with({"town": str}, by_town=Index(hash="town", name="towns", projection="KEYS_ONLY")),
        catalog_with({"town": str}, by_town=Index(sort="town", name="towns")),
        catalog_with({"town": str}, town="x", by_town=Index(hash="town", name="towns")),
        catalog_with({"town": str}, by_town=Index(hash="town", name="towns", hash_key="other")),
    ],
    ids=["order", "codec", "unsharded", "projection", "sorted", "default", "attribute"],
)
def test_what_changes_entries_changes_the_digest(other: Catalog) -> None:
    """Another order, type, sharding, projection, default or attribute is another definition."""
    declared = index_element(catalog_with({"town": str}, by_town=Index(hash="town", name="towns")))
    assert not declared.fits(index_element(other))


def test_enums_may_grow_at_the_end() -> None:
    """An enum with further members fits; one in another order does not, since its stored ordinals would differ."""

    def of_members(*values: str) -> Element:
        kind: Any = Enum("Kind", {value.upper(): value for value in values})  # type: ignore[misc]
        return index_element(catalog_with({"kind": kind}, by_kind=Index(hash="kind")))

    two, three, swapped = of_members("a", "b"), of_members("a", "b", "c"), of_members("b", "a")
    assert two.fits(three)
    assert three.fits(two)
    assert not two.fits(swapped)
    assert two.digest == three.digest
    assert with_more_members(two.definition, three.definition) == three.definition
    assert with_more_members(three.definition, two.definition) is three.definition
    grown = index_from_data(Element(two.kind, two.entity, two.name, three.definition), ARTICLE.space)
    assert grown.hash[0].column.encode(grown.hash[0].column.codec.load("c")) == "002"


def test_a_default_that_is_no_value_counts_as_none() -> None:
    """A default of a wrong type, which no record can be written with, does not keep the table from being opened."""
    element = index_element(catalog_with({"town": str}, town=5, by_town=Index(hash="town")))
    assert "default" not in element.definition["hash"][0]


def test_an_unknown_scalar_asks_for_a_newer_release() -> None:
    """A record with a scalar that this release does not know is refused with CATALOG_BEHIND."""
    with pytest.raises(CatalogBehind, match="stores colour as rgb"):
        part_from_data({"stored": "colour", "codec": "rgb"})
