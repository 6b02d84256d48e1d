"""Every rule of a catalog, by a catalog that breaks it."""

from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from types import new_class
from typing import Annotated, Any

import pytest

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
    Ttl,
    derived,
    desc,
    stored,
)
from graphql_api.errors import InvalidCatalog, Violation


def violations(*entities: type[Any], namespace: str | None = None) -> list[str]:
    """What a catalog says about its entities: where and what, without the remedy."""
    found: tuple[Violation, ...] = ()
    try:
        Catalog(*entities, namespace=namespace)
    except InvalidCatalog as invalid:
        found = invalid.violations
    assert all(one.entity and one.problem.endswith(".") and one.remedy.endswith((".", "?")) for one in found)
    return [f"{one.entity}.{one.property}: {one.problem}" for one in found]


def made(
    class_name: str, annotations: dict[str, Any], attributes: dict[str, Any] | None = None, **head: Any
) -> type[Entity]:
    """An entity whose names are worked out by the test."""
    body = {"__module__": __name__, "__annotations__": annotations, **(attributes or {})}
    model = new_class(class_name, (Entity,), head, lambda namespace: namespace.update(body))
    assert issubclass(model, Entity)
    return model


ID: Any = Id
SUB_ID: Any = SubId
CREATED: Any = Created
TTL: Any = Ttl
"""markers for types that a test works out"""


class Plain(Entity):
    """Nothing wrong with it."""

    plain_id: Id[str]


def test_all_violations_are_reported_together() -> None:
    """A catalog with many mistakes lists them all: of entities, properties, indexes and the table."""

    class Part(Entity, shards=Shards(1).then(4, since="2026-01-01")):
        part_id: Id[float]
        hash_key: str
        by_p = Index(sort=desc("hash_key"))

    with pytest.raises(InvalidCatalog) as failure:
        Catalog(Part, Plain, Plain, namespace="1st")
    assert str(failure.value).startswith("The catalog has 7 problems:\n  - Part.hash_key: ")
    assert [(one.entity, one.property) for one in failure.value.violations] == [
        ("Part", "hash_key"),
        ("Part", "part_id"),
        ("Part", None),
        ("Part", "by_p"),
        ("Part", "by_p"),
        ("Catalog", None),
        ("Plain", None),
    ]


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "1st", "a!b", "a|b", "a#b", "_a", "x" * 256])
def test_entity_name_is_a_plain_word(name: str) -> None:
    """The name in hash keys is made of letters, digits and underscores."""

    class Part(Entity, name=name):
        part_id: Id[str]

    assert violations(Part) == [f"Part.None: is called {name!r} in hash keys."]


def test_entity_name_of_the_table_is_reserved() -> None:
    """No entity takes the name under which the table keeps its own records."""

    class ShardQL(Entity, name="shardql"):
        part_id: Id[str]

    assert violations(ShardQL) == ["ShardQL.None: is called 'shardql', which is reserved for the table's own items."]


@pytest.mark.parametrize("class_name", ["Größe", "__Part"])
def test_class_name_is_one_of_graphql(class_name: str) -> None:
    """A class name that GraphQL cannot write, or keeps for itself, is refused."""
    assert violations(made(class_name, {"part_id": Id[str]}, name="part")) == [
        f"{class_name}.None: has a class name that GraphQL does not allow."
    ]


@pytest.mark.parametrize("separator", ["", "%", "a", "7", "::", "é", " "])
def test_separator_is_one_punctuation_mark(separator: str) -> None:
    """The separator is one printable character that nothing else needs."""

    class Part(Entity, separator=separator):
        part_id: Id[str]

    assert violations(Part) == [f"Part.None: has the separator {separator!r}."]


@pytest.mark.parametrize("name", ["_w", "a-b", "1a", "a.b", "", "ä", "x" * 256])
def test_stored_name_is_a_plain_word(name: str) -> None:
    """A stored name is made of letters, digits and underscores, and begins with a letter."""
    assert violations(made("Part", {"part_id": Id[str], "color": Annotated[str, stored(name)]})) == [
        f"Part.color: is stored as {name!r}."
    ]


def test_key_attributes_are_reserved() -> None:
    """No property is stored as a key of the table or as what any index of the catalog writes."""

    class Part(Entity):
        part_id: Id[str]
        hash_key: str
        range_key: str
        color_range_key: str

    class Other(Entity):
        other_id: Id[str]
        color: str
        other_color_hash_key: str
        by_color = Index(sort="color")
        by_mixed = Index(hash="color", sort="other_id")

    assert violations(Part, Other) == [
        "Part.hash_key: is stored as 'hashKey', a key of the table.",
        "Part.range_key: is stored as 'rangeKey', a key of the table.",
        "Part.color_range_key: is stored as 'colorRangeKey', where Other.by_color stores a key.",
        "Other.other_color_hash_key: is stored as 'otherColorHashKey', where Other.by_mixed stores a key.",
    ]


def test_stored_and_graphql_names_are_distinct() -> None:
    """Two properties share neither their stored name nor their name in GraphQL."""

    class Part(Entity):
        part_id: Id[str]
        color: Annotated[str, stored("partId")]
        first_name: str
        firstName: Annotated[str, stored("other")]  # noqa: N815

    assert violations(Part) == [
        "Part.color: is stored as 'partId', as part_id is.",
        "Part.firstName: is called in GraphQL 'firstName', as first_name is.",
    ]


def test_entities_have_names_of_their_own() -> None:
    """Two entities share neither their name in hash keys nor their class name."""

    class Part(Entity, name="plain"):
        part_id: Id[str]

    assert violations(Plain, Part) == ["Part.None: is called 'plain' in hash keys, as Plain is."]
    twin = made("Plain", {"plain_id": Id[str]}, name="twin")
    assert violations(Plain, twin) == ["Plain.None: is declared twice."]


def test_search_fields_have_names_of_their_own() -> None:
    """An entity may not be called like a search field of another one."""

    class PlainById(Entity):
        some_id: Id[str]

    assert violations(Plain, PlainById) == ["PlainById.None: becomes the field 'plainById', which Plain has as well."]


def test_namespace_is_a_plain_word() -> None:
    """A namespace that GraphQL cannot write is refused, a plain one is kept."""
    assert violations(Plain, namespace="my-app") == ["Catalog.None: has the namespace 'my-app'."]
    assert Catalog(Plain, namespace="Plugin").namespace == "Plugin"


def test_catalog_holds_entities_and_nothing_else() -> None:
    """A catalog without entities is refused, and so is what is no entity."""
    assert violations() == ["Catalog.None: declares no entity."]
    assert violations(Plain, int) == ["Catalog.None: received <class 'int'>, which is no entity."]
    assert violations(Plain, Entity) == [f"Catalog.None: received {Entity!r}, which is no entity."]


def test_annotations_must_resolve() -> None:
    """A property whose type Python does not know is reported."""
    assert "Part.None: has annotations that Python cannot resolve." in violations(
        made("Part", {"part_id": Id[str], "other": "Missing"})
    )


# --- keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, float, list[str], bytes, Any, int | str])
def test_ids_are_scalars_that_identify(kind: Any) -> None:
    """Neither an id nor a sub id is a boolean, a float, or anything that is no scalar."""
    problem = "is part of the primary key, and its type cannot identify records."
    found = violations(made("Part", {"one": ID[kind], "two": SUB_ID[kind]}))
    assert [place for place in found if place.endswith(problem)] == [f"Part.one: {problem}", f"Part.two: {problem}"]


def test_primary_key_is_never_null() -> None:
    """Neither an id nor a sub id may be null."""

    class Part(Entity):
        one: Id[str | None]
        two: SubId[Int32] | None

    assert violations(Part) == [
        "Part.one: is part of the primary key and may be null.",
        "Part.two: is part of the primary key and may be null.",
    ]


def test_id_is_no_sub_id() -> None:
    """A property is an id or a sub id, not both."""

    class Part(Entity):
        one: SubId[Id[str]]

    assert violations(Part)[0] == "Part.one: is both Id and SubId."


def test_sub_ids_are_at_most_three() -> None:
    """Three sub ids are allowed, a fourth is not."""
    three = {"part_id": Id[str], "a": SubId[str], "b": SubId[str], "c": SubId[str]}
    assert violations(made("Part", three)) == []
    assert violations(made("Part", {**three, "d": SubId[str]})) == ["Part.None: has 4 sub ids."]


@pytest.mark.parametrize("shards", [Shards(2), Shards(1).then(2, since=1)])
def test_singleton_has_one_shard(shards: Shards) -> None:
    """An entity without an id lies in one shard."""

    class Part(Entity, shards=shards):
        created: Created[int] = 0

    assert violations(Part) == ["Part.None: has no Id, so all its records are in one shard."]


def test_growth_needs_a_creation_property() -> None:
    """Several generations need a creation property that is never null."""
    shards = Shards(1).then(16, since="2026-01-01")

    class Without(Entity, shards=shards):
        without_id: Id[str]

    class Nullable(Entity, shards=shards):
        nullable_id: Id[str]
        created: Created[Timestamp] | None = None

    assert violations(Without, Nullable) == [
        "Without.None: has several shard generations and no creation property that determines the one of a record.",
        "Nullable.created: determines the shard generation and may be null.",
    ]


def test_creation_value_is_one_for_each_id() -> None:
    """A creation property that differs between the entries of an id decides no generation; one of the id itself may."""

    class History(Entity, shards=Shards(1).then(16, since=5)):
        history_id: Id[str]
        at: SubId[Created[Timestamp]]

    class Fine(Entity, shards=Shards(1).then(16, since=5)):
        at: Id[Created[Timestamp]]
        entry: SubId[str]

    assert violations(History, Fine) == [
        "History.at: determines the shard generation and differs between the entries of one id."
    ]


@pytest.mark.parametrize("kind", [Decimal, float, bool, list[str]])
def test_creation_value_has_before_and_after(kind: Any) -> None:
    """A creation property is a moment, a whole number or a text."""
    assert violations(made("Part", {"part_id": Id[str], "created": CREATED[kind]})) == [
        "Part.created: is Created, and its type cannot determine a shard generation."
    ]


def test_broken_shards_are_reported_with_the_rest() -> None:
    """What is wrong with the shards of an entity is a violation of the catalog."""

    class Part(Entity, shards=Shards(0).then(16, since="soon")):
        part_id: Id[str]
        created: Created[datetime]

    assert violations(Part) == [
        "Part.None: has a generation of 0 shards.",
        "Part.None: has a shard generation since 'soon'.",
    ]


def test_roles_are_given_once() -> None:
    """An entity has one creation property and one time to live."""

    class Part(Entity):
        part_id: Id[str]
        first: Created[Timestamp]
        second: Created[Timestamp]
        ends: Ttl[Timestamp]
        dies: Ttl[Timestamp]

    assert violations(Part) == ["Part.second: is a second Created.", "Part.dies: is a second Ttl."]


@pytest.mark.parametrize("kind", [TimestampMs, int, datetime, str])
def test_time_to_live_is_in_seconds(kind: Any) -> None:
    """A time to live is a Timestamp."""
    assert violations(made("Part", {"part_id": Id[str], "ends": TTL[kind]})) == [
        "Part.ends: is a Ttl in another unit than seconds."
    ]


# --- enums and derived properties ------------------------------------------------------------------------------


class Mixed(Enum):
    A = "a"
    B = 1.5


class Same(Enum):
    A = "1"
    B = 1


def test_enums_have_distinct_values_that_can_be_stored() -> None:
    """An enum has distinct values, all str or int, and at most 1,000 of them."""
    huge = IntEnum("Huge", [f"m{number}" for number in range(1001)])  # type: ignore[misc]
    largest = IntEnum("Largest", [f"m{number}" for number in range(1000)])  # type: ignore[misc]

    assert violations(made("Part", {"part_id": Id[str], "a": Mixed, "b": Same | None, "c": huge, "d": largest})) == [
        "Part.a: is of Mixed, which has values that are neither str nor int.",
        "Part.b: is of Same, which has two values with the same text.",
        "Part.c: is of Huge, which has 1001 members; at most 1,000 can be ordered.",
    ]


def test_derived_properties_form_no_circle() -> None:
    """Derived properties that are computed from each other in a circle are reported."""

    class Part(Entity):
        part_id: Id[str]
        a: str = derived(str.upper, "b")
        b: str = derived(str.lower, "a")
        c: str = derived(str.lower, "c")

    (found,) = violations(Part)
    assert "is derived from itself" in found


def test_derived_property_is_nullable_where_a_source_is() -> None:
    """A derived property that can come out null says so in its type."""

    class Part(Entity):
        part_id: Id[str]
        name: str | None = None
        short: str = derived(str.upper, "name")
        fine: str | None = derived(str.upper, "name")

    assert violations(Part) == ["Part.short: is null if name is null, and its type does not allow null."]


def test_derived_property_has_function_and_source() -> None:
    """A derived property names a function first and at least one source behind it."""

    class Part(Entity):
        part_id: Id[str]
        a: str = derived(str.upper)
        b: str = derived("part_id", "part_id")  # type: ignore[arg-type]

    assert violations(Part) == [
        "Part.a: is derived from no property.",
        "Part.b: is derived by 'part_id', which cannot be called.",
    ]


# --- indexes ---------------------------------------------------------------------------------------------------


def part(index: Any, **annotations: Any) -> list[str]:
    """What a catalog says about an entity with one index `by_one`."""
    properties: dict[str, Any] = {"part_id": Id[str], "color": str, "rank": int, "tags": list[str], **annotations}
    return violations(made("Part", properties, {"by_one": index}))


def test_index_is_called_by_something() -> None:
    """An index attribute begins with `by_` and a letter, and is not the one that every entity has."""
    indexes = {name: Index(hash="rank", slot=f"slot{name}") for name in ("rank_order", "by_1st", "by_")}
    assert violations(made("Part", {"part_id": Id[str], "rank": int}, indexes)) == [
        f"Part.{name}: is an index, and its name does not start with by_ and a letter." for name in indexes
    ]
    taken = violations(made("Part", {"part_id": Id[str], "rank": int}, {"by_id": Index(sort="rank", name="other")}))
    assert "Part.by_id: replaces the primary index of the entity." in taken


@pytest.mark.parametrize("name", ["ab", "x" * 256, "a b", "a/b", "größe"])
def test_physical_name_is_one_of_an_engine(name: str) -> None:
    """A physical index name has 3 to 255 plain characters."""
    assert f"Part.by_one: is called {name!r} in the table." in part(
        Index(sort="rank", name=name, hash_key="oneHashKey", range_key="oneRangeKey", hash="color")
    )


def test_key_attribute_is_a_plain_word() -> None:
    """A key attribute has a plain name of at most 255 characters."""
    assert part(Index(hash="color", sort="rank", hash_key="a-b", range_key="x" * 256)) == [
        "Part.by_one: stores a key in the attribute 'a-b'.",
        f"Part.by_one: stores a key in the attribute {'x' * 256!r}.",
    ]


def test_slot_is_a_name_already() -> None:
    """An index has a slot or a name, not both."""
    assert part(Index(sort="rank", slot="gsi01", name="other")) == ["Part.by_one: has a slot and a name."]


def test_projection_is_not_empty() -> None:
    """An index that carries no property by name says KEYS_ONLY instead."""
    assert part(Index(sort="rank", projection=[])) == ["Part.by_one: has an empty projection."]


def test_index_is_made_of_scalars() -> None:
    """Hash and sort properties are scalars."""
    assert part(Index(hash="tags", sort="rank")) == ["Part.by_one: is hashed by tags, which is no scalar."]
    assert part(Index(sort="tags")) == ["Part.by_one: is sorted by tags, which is no scalar."]


def test_index_names_a_property_once() -> None:
    """A property stands once in an index, in the hash or in the order."""
    assert part(Index(hash=["color", "color"])) == ["Part.by_one: is hashed by color twice."]
    assert part(Index(sort=["rank", desc("rank")])) == ["Part.by_one: is sorted by rank twice."]
    assert part(Index(hash="color", sort=["color", "rank"])) == [
        "Part.by_one: is sorted by color, which is also a hash property."
    ]


def test_text_is_not_turned_round() -> None:
    """Only properties of fixed width can be descending."""
    assert part(Index(sort=desc("color"))) == [
        "Part.by_one: is sorted by color in descending order, which text does not support."
    ]
    assert part(Index(sort=[desc("rank"), desc("made"), "color"]), made=date) == []


def test_singleton_has_no_index_without_an_order() -> None:
    """An index over a singleton has nothing to end its range values with."""
    found = violations(made("Part", {"rank": int}, {"by_one": Index(hash="rank")}))
    assert found == ["Part.by_one: has no sort property, and the entity has no id."]


def test_raw_index_is_one_plain_property() -> None:
    """A raw index keeps one property as it is: one, forward, stored as text or number, under its own name."""
    assert part(Index(raw=True)) == ["Part.by_one: is raw and sorted by 0 properties."]
    assert part(Index(sort=["rank", "color"], raw=True)) == ["Part.by_one: is raw and sorted by 2 properties."]
    assert part(Index(sort=desc("rank"), raw=True)) == ["Part.by_one: is raw and sorted by rank in descending order."]
    assert part(Index(sort="flag", raw=True), flag=bool) == [
        "Part.by_one: is raw and sorted by flag, which is stored neither as text nor as a number."
    ]
    assert part(Index(sort="rank", raw=True, slot="gsi01")) == [
        "Part.by_one: is raw and in a slot, whose range keys are generated."
    ]
    assert part(Index(sort="rank", raw=True, range_key="other")) == [
        "Part.by_one: is raw and sorted by rank, and sets range_key='other'."
    ]
    assert part(Index(sort="rank", raw=True, range_key="rank")) == []


def test_raw_enum_is_stored_in_one_way() -> None:
    """A raw index over an enum needs values that are all texts or all numbers."""

    class Level(Enum):
        LOW = 1
        HIGH = "high"

    assert part(Index(sort="level", raw=True), level=Level) == [
        "Part.by_one: is raw and sorted by level, which is stored neither as text nor as a number."
    ]


def test_names_alone_do_not_fill_a_key() -> None:
    """Keys whose names leave no room for values are reported."""
    annotations: dict[str, Any] = {f"{letter * 250}": str for letter in "abcdefghi"}
    names = list(annotations)
    found = violations(
        made(
            "Part",
            {"part_id": Id[str], **annotations},
            {"by_order": Index(sort=names[:5]), "by_hash": Index(hash=names, hash_key="manyHashKey")},
        )
    )
    assert found == [
        "Part.by_order: has range values of at least 1272 bytes.",
        "Part.by_hash: has hash keys of at least 2275 bytes.",
    ]


# --- indexes beside each other ---------------------------------------------------------------------------------


def test_indexes_of_an_entity_have_names_and_slots_of_their_own() -> None:
    """Two indexes of one entity share neither their name in GraphQL nor their physical index."""
    indexes = {
        "by_rank_one": Index(sort="rank"),
        "by_rankOne": Index(hash="color", name="other"),
        "by_third": Index(hash="color", name="other"),
    }
    assert violations(made("Part", {"part_id": Id[str], "rank": int, "color": str}, indexes)) == [
        "Part.by_rankOne: is called 'rankOne' in GraphQL, as by_rank_one is.",
        "Part.by_third: uses the physical index 'other', as by_rankOne of the same entity does.",
    ]


def test_shared_attribute_means_one_thing() -> None:
    """Two indexes of an entity may write one attribute exactly if they mean the same by it."""
    properties = {"part_id": Id[str], "maker_id": str, "maker": str, "rank": int}

    def found(one: Index, two: Index) -> list[str]:
        return violations(made("Part", properties, {"by_one": one, "by_two": two}))

    assert found(Index(hash="maker_id", sort="rank"), Index(sort="rank", range_key="oneRangeKey")) == []
    assert found(Index(hash="maker_id", sort="rank"), Index(sort=desc("rank"), range_key="oneRangeKey")) == [
        "Part.by_two: stores a key in the attribute 'oneRangeKey', where by_one stores a different key."
    ]
    assert found(Index(hash="maker_id", sort="rank"), Index(hash="maker", sort="rank")) == [
        "Part.by_two: stores a key in the attribute 'partMakerHashKey', where by_one stores a different key."
    ]
    assert found(Index(sort="rank"), Index(hash="maker", range_key="rangeKey")) == []
    assert found(Index(sort="rank"), Index(hash="maker", sort="rank", range_key="rangeKey")) == [
        "Part.by_two: stores a key in the attribute 'rangeKey', where by_id stores a different key."
    ]
    assert found(Index(sort="rank"), Index(hash="maker", hash_key="hashKey")) == [
        "Part.by_two: stores a key in the attribute 'hashKey', where by_id stores a different key."
    ]


def test_shared_slot_has_one_definition() -> None:
    """Entities in one physical index agree on its attributes, their type and what it carries."""

    class One(Entity):
        one_id: Id[str]
        made: Timestamp
        by_made = Index(sort="made")
        by_slot = Index(hash="made", slot="gsi01")

    class Two(Entity):
        two_id: Id[str]
        made: Timestamp
        by_made = Index(hash="two_id", sort="made", raw=True, projection="KEYS_ONLY")
        by_slot = Index(hash="made", slot="gsi01")

    where = "Two.by_made: uses the physical index 'made' with the"
    assert violations(One, Two) == [
        f"{where} hash key 'twoTwoHashKey', and One.by_made with 'hashKey'.",
        f"{where} range key 'made', and One.by_made with 'madeRangeKey'.",
        f"{where} range key type 'N', and One.by_made with 'S'.",
        f"{where} projection 'KEYS_ONLY', and One.by_made with 'ALL'.",
    ]


def test_table_has_at_most_twenty_indexes() -> None:
    """Twenty physical indexes are allowed, one more is not, and a shared slot counts once."""

    def wide(count: int) -> type[Entity]:
        indexes = {f"by_index_{number}": Index(hash="rank", sort="part_id") for number in range(count)}
        return made("Part", {"part_id": Id[str], "rank": int}, indexes)

    class Other(Entity):
        other_id: Id[str]
        by_other = Index(hash="other_id", name="index0", hash_key="partRankHashKey", range_key="index0RangeKey")

    assert violations(wide(20), Other) == []
    assert violations(wide(21), Other) == ["Catalog.None: needs 21 indexes, and a table has at most 20."]


def test_table_includes_at_most_a_hundred_properties() -> None:
    """A hundred properties may be carried by name over all indexes of the table."""
    properties = {"part_id": Id[str], "rank": int, **{f"p{number}": str for number in range(51)}}
    names = [f"p{number}" for number in range(51)]

    def found(carried: int) -> list[str]:
        one = Index(hash="rank", sort="part_id", projection=names[:50])
        two = Index(hash="rank", sort="part_id", projection=names[:carried])
        return violations(made("Part", properties, {"by_one": one, "by_two": two}))

    assert found(50) == []
    assert found(51) == ["Catalog.None: has projections of 101 named properties, and a table has at most 100."]


def test_table_has_one_expiry() -> None:
    """An engine removes records by one attribute of the table, so entities expire by the same, and no other is it."""

    class Visit(Entity):
        visit_id: Id[str]
        expires: Ttl[Timestamp] | None = None

    class Code(Entity):
        code_id: Id[str]
        until: Ttl[Timestamp]

    class SameCode(Entity):
        code_id: Id[str]
        until: Annotated[Ttl[Timestamp], stored("expires")]

    def licence(kind: Any) -> type[Entity]:
        return made("Licence", {"licence_id": Id[str], "expires": kind})

    assert Catalog(Visit, SameCode, licence(str)).table_definition().ttl_attribute == "expires"
    assert Catalog(licence(Timestamp)).table_definition().ttl_attribute is None
    assert violations(Visit, Code) == [
        (
            "Code.until: is a Ttl stored as 'until', and Visit.expires is stored as 'expires': "
            "a table has only one expiry attribute."
        )
    ]
    assert violations(Visit, licence(Timestamp)) == [
        "Licence.expires: is stored as 'expires', the expiry attribute of Visit.expires."
    ]


# --- entities beside each other --------------------------------------------------------------------------------


class Parent(Entity, shards=Shards(1).then(16, since="2026-01-01")):
    """Grows."""

    parent_id: Id[str]
    created: Created[Timestamp]


def test_parent_is_an_entity_of_the_catalog() -> None:
    """An index is sharded like an entity that is there, else the nearest one is named."""

    class Child(Entity):
        child_id: Id[str]
        parent_id: str
        created: Created[Timestamp]
        by_parent = Index(hash="parent_id", sharded="Parnet")

    with pytest.raises(InvalidCatalog, match=r"like 'Parnet', which is no entity .* Did you mean 'Parent'\?"):
        Catalog(Parent, Child)


def test_child_is_hashed_by_the_ids_of_its_parent() -> None:
    """An index sharded like a parent is hashed by properties that match the parent's ids in number and type."""

    class Pair(Entity):
        one: Id[str]
        two: Id[int]

    class Child(Entity):
        child_id: Id[str]
        one: str
        two: int
        small: Int32
        by_fine = Index(hash=["one", "two"], sharded="Pair")
        by_few = Index(hash="one", sharded="Pair", hash_key="fewHashKey")
        by_other = Index(hash=["one", "small"], sharded="Pair", hash_key="otherHashKey")
        by_none = Index(sharded="Single", hash_key="noneHashKey")

    class Single(Entity):
        count: int = 0

    problem = "and its hash properties do not match its ids"
    assert violations(Pair, Child, Single) == [
        f"Child.by_few: is sharded like Pair, {problem} (one, two).",
        f"Child.by_other: is sharded like Pair, {problem} (one, two).",
        f"Child.by_none: is sharded like Single, {problem} (none).",
    ]


@pytest.mark.parametrize(
    ("created", "problem"),
    [
        (None, "Child has no creation property."),
        (Created[Timestamp] | None, "created may be null."),
        (Created[TimestampMs], "created has another type than Parent.created."),
    ],
)
def test_child_of_a_growing_parent_has_its_kind_of_creation_property(created: Any, problem: str) -> None:
    """An index that is sharded like a growing parent needs a creation value of the parent's type on every record."""
    annotations = {"child_id": Id[str], "parent_id": str, **({"created": created} if created is not None else {})}
    child = made("Child", annotations, {"by_parent": Index(hash="parent_id", sharded="Parent")})
    assert violations(Parent, child) == [
        f"Child.by_parent: is sharded like Parent, which has several shard generations, and {problem}"
    ]


def test_two_children_do_not_share_a_slot_under_one_parent() -> None:
    """Two entities that are sharded like the same parent lie in different physical indexes."""

    def child(name: str) -> type[Entity]:
        return made(
            name,
            {f"{name}_id": Id[str], "parent_id": str, "created": Created[Timestamp]},
            {"by_parent": Index(hash="parent_id", sharded="Parent", slot="gsi01")},
        )

    assert violations(Parent, child("One"), child("Two")) == [
        "Two.by_parent: uses the physical index 'gsi01' with hash keys of 'parent', as One.by_parent does."
    ]


def test_records_do_not_slip_into_an_index_of_another_entity() -> None:
    """A record that has both attributes of another entity's index, under the same head, would be found there."""

    class Email(Entity):
        email: Id[str]
        parent_id: str
        created: Created[Timestamp]
        by_parent = Index(hash="parent_id", sort="created", sharded="Parent", raw=True, name="parentCreated")

    def order(**index: Any) -> type[Entity]:
        return made(
            "Order",
            {"order_id": Id[str], "parent_id": str, "created": Created[Timestamp]},
            {"by_owner": Index(hash="parent_id", sharded="Parent", **index)},
        )

    (found,) = violations(Parent, Email, order())
    assert found.startswith(
        "Order.by_owner: adds its records to the physical index 'parentCreated' of Email: they have"
    )
    assert violations(Parent, Email, order(hash_key="ownerHashKey")) == []


def test_raw_attribute_has_one_type_in_all_entities() -> None:
    """What a raw index orders by has one stored type wherever it occurs, and is never stored as null."""

    class One(Entity):
        one_id: Id[str]
        made: Timestamp
        by_made = Index(sort="made", raw=True)

    class Text(Entity):
        text_id: Id[str]
        made: str

    class Tags(Entity):
        tags_id: Id[str]
        made: list[str]

    class Null(Entity):
        null_id: Id[str]
        made: int | None = 7

    class Fine(Entity):
        fine_id: Id[str]
        made: Decimal | None = None

    ordered = "is stored as 'made', which One.by_made sorts"
    assert violations(One, Text, Tags, Null, Fine) == [
        f"Text.made: {ordered} as a number.",
        f"Tags.made: {ordered} as a number.",
        f"Null.made: {ordered} by, and its default is not null.",
    ]
