"""Validation of entities and catalogs: each check has a catalog that violates it."""

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
    canonical,
    derived,
    desc,
    stored,
)
from graphql_api.errors import InvalidCatalog, Violation


def violations(*entities: type[Any], **options: Any) -> list[str]:
    """The violations of a catalog of these entities, each as `entity.property: problem`."""
    found: tuple[Violation, ...] = ()
    try:
        Catalog(*entities, **options)
    except InvalidCatalog as invalid:
        found = invalid.violations
    assert all(one.entity and one.problem.endswith(".") and one.remedy.endswith((".", "?")) for one in found)
    return [f"{one.entity}.{one.property}: {one.problem}" for one in found]


def make_entity(
    class_name: str, annotations: dict[str, Any], attributes: dict[str, Any] | None = None, **head: Any
) -> type[Entity]:
    """An entity with generated names and annotations."""
    body = {"__module__": __name__, "__annotations__": annotations, **(attributes or {})}
    model = new_class(class_name, (Entity,), head, lambda namespace: namespace.update(body))
    assert issubclass(model, Entity)
    return model


ID: Any = Id
SUB_ID: Any = SubId
CREATED: Any = Created
TTL: Any = Ttl
"""markers for annotations that a test computes"""


class Plain(Entity):
    """A valid entity."""

    plain_id: Id[str]


def test_all_violations_are_reported_together() -> None:
    """All violations of entities, properties, indexes and the table are reported together."""

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


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "1st", "a!b", "a|b", "a#b", "_a", "x" * 256])
def test_entity_name_has_plain_characters(name: str) -> None:
    """The name in hash keys has only letters, digits and underscores, and starts with a letter."""

    class Part(Entity, name=name):
        part_id: Id[str]

    assert violations(Part) == [f"Part.None: is called {name!r} in hash keys."]


def test_reserved_entity_name_is_refused() -> None:
    """The name of the table's own items is reserved."""

    class ShardQL(Entity, name="shardql"):
        part_id: Id[str]

    assert violations(ShardQL) == ["ShardQL.None: is called 'shardql', which is reserved for the table's own items."]


@pytest.mark.parametrize("class_name", ["Größe", "__Part"])
def test_class_name_is_valid_in_graphql(class_name: str) -> None:
    """A class name that is not a valid GraphQL name, or is reserved by GraphQL, is refused."""
    assert violations(make_entity(class_name, {"part_id": Id[str]}, name="part")) == [
        f"{class_name}.None: has a class name that GraphQL does not allow."
    ]


@pytest.mark.parametrize("separator", ["", "%", "a", "7", "::", "é", " "])
def test_separator_is_one_punctuation_mark(separator: str) -> None:
    """The separator is one printable punctuation mark other than `%`."""

    class Part(Entity, separator=separator):
        part_id: Id[str]

    assert violations(Part) == [f"Part.None: has the separator {separator!r}."]


@pytest.mark.parametrize("name", ["_w", "a-b", "1a", "a.b", "", "ä", "x" * 256])
def test_stored_name_has_plain_characters(name: str) -> None:
    """A stored name has only letters, digits and underscores, and starts with a letter."""
    assert violations(make_entity("Part", {"part_id": Id[str], "color": Annotated[str, stored(name)]})) == [
        f"Part.color: is stored as {name!r}."
    ]


def test_key_attributes_are_reserved() -> None:
    """Properties cannot use the names of key attributes of the table or its indexes."""

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
    """Two properties cannot have the same stored name or the same GraphQL name."""

    class Part(Entity):
        part_id: Id[str]
        color: Annotated[str, stored("partId")]
        first_name: str
        firstName: Annotated[str, stored("other")]  # noqa: N815

    assert violations(Part) == [
        "Part.color: is stored as 'partId', as part_id is.",
        "Part.firstName: is called in GraphQL 'firstName', as first_name is.",
    ]


def test_entity_names_are_distinct() -> None:
    """Two entities cannot have the same name in hash keys or the same class name."""

    class Part(Entity, name="plain"):
        part_id: Id[str]

    assert violations(Plain, Part) == ["Part.None: is called 'plain' in hash keys, as Plain is."]
    duplicate = make_entity("Plain", {"plain_id": Id[str]}, name="twin")
    assert violations(Plain, duplicate) == ["Plain.None: is declared twice."]


def test_search_field_names_are_distinct() -> None:
    """The class name of an entity cannot equal a search field of another entity."""

    class PlainById(Entity):
        some_id: Id[str]

    assert violations(Plain, PlainById) == ["PlainById.None: becomes the field 'plainById', which Plain has as well."]


def test_namespace_is_valid_in_graphql() -> None:
    """A namespace must be a valid GraphQL name."""
    assert violations(Plain, namespace="my-app") == ["Catalog.None: has the namespace 'my-app'."]
    assert Catalog(Plain, namespace="Plugin").namespace == "Plugin"


def test_catalog_contains_only_entities() -> None:
    """A catalog without entities, or with anything that is not an entity, is refused."""
    assert violations() == ["Catalog.None: declares no entity."]
    assert violations(Plain, int) == ["Catalog.None: received <class 'int'>, which is no entity."]
    assert violations(Plain, Entity) == [f"Catalog.None: received {Entity!r}, which is no entity."]


def test_annotations_must_resolve() -> None:
    """A property with an unresolvable annotation is reported."""
    assert "Part.None: has annotations that Python cannot resolve." in violations(
        make_entity("Part", {"part_id": Id[str], "other": "Missing"})
    )


# --- keys --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, float, list[str], bytes, Any, int | str])
def test_ids_are_identifying_scalars(kind: Any) -> None:
    """An id or sub id cannot be a boolean, a float, or a non-scalar type."""
    problem = "is part of the primary key, and its type cannot identify records."
    found = violations(make_entity("Part", {"one": ID[kind], "two": SUB_ID[kind]}))
    assert [place for place in found if place.endswith(problem)] == [f"Part.one: {problem}", f"Part.two: {problem}"]


def test_primary_key_is_not_nullable() -> None:
    """An id or sub id cannot be nullable."""

    class Part(Entity):
        one: Id[str | None]
        two: SubId[Int32] | None

    assert violations(Part) == [
        "Part.one: is part of the primary key and may be null.",
        "Part.two: is part of the primary key and may be null.",
    ]


def test_property_is_not_both_id_and_sub_id() -> None:
    """A property cannot be both id and sub id."""

    class Part(Entity):
        one: SubId[Id[str]]

    assert violations(Part)[0] == "Part.one: is both Id and SubId."


def test_at_most_three_sub_ids() -> None:
    """An entity has at most three sub ids."""
    three = {"part_id": Id[str], "a": SubId[str], "b": SubId[str], "c": SubId[str]}
    assert violations(make_entity("Part", three)) == []
    assert violations(make_entity("Part", {**three, "d": SubId[str]})) == ["Part.None: has 4 sub ids."]


@pytest.mark.parametrize("shards", [Shards(2), Shards(1).then(2, since=1)])
def test_singleton_has_one_shard(shards: Shards) -> None:
    """An entity without an id has exactly one shard."""

    class Part(Entity, shards=shards):
        created: Created[int] = 0

    assert violations(Part) == ["Part.None: has no Id, so all its records are in one shard."]


def test_shard_generations_need_a_creation_property() -> None:
    """Several shard generations require a creation property that is not nullable."""
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


def test_creation_value_is_equal_for_all_entries_of_an_id() -> None:
    """The creation property must be equal for all entries of an id; it may be part of the id."""

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
def test_creation_property_is_ordered(kind: Any) -> None:
    """A creation property is a point in time, an integer or a text."""
    assert violations(make_entity("Part", {"part_id": Id[str], "created": CREATED[kind]})) == [
        "Part.created: is Created, and its type cannot determine a shard generation."
    ]


def test_shard_problems_are_violations() -> None:
    """Problems of shard declarations are violations of the catalog."""

    class Part(Entity, shards=Shards(0).then(16, since="soon")):
        part_id: Id[str]
        created: Created[datetime]

    assert violations(Part) == [
        "Part.None: has a generation of 0 shards.",
        "Part.None: has a shard generation since 'soon'.",
    ]


def test_roles_are_unique() -> None:
    """An entity has at most one creation property and one time to live."""

    class Part(Entity):
        part_id: Id[str]
        first: Created[Timestamp]
        second: Created[Timestamp]
        ends: Ttl[Timestamp]
        dies: Ttl[Timestamp]

    assert violations(Part) == ["Part.second: is a second Created.", "Part.dies: is a second Ttl."]


@pytest.mark.parametrize("kind", [TimestampMs, int, datetime, str])
def test_time_to_live_is_in_seconds(kind: Any) -> None:
    """A time to live is a `Timestamp`."""
    assert violations(make_entity("Part", {"part_id": Id[str], "ends": TTL[kind]})) == [
        "Part.ends: is a Ttl in another unit than seconds."
    ]


# --- enums and derived properties --------------------------------------------------------------------------------


class Mixed(Enum):
    A = "a"
    B = 1.5


class Same(Enum):
    A = "1"
    B = 1


def test_enums_have_distinct_values_that_can_be_stored() -> None:
    """An enum has at most 1,000 distinct values, all str or int."""
    huge = IntEnum("Huge", [f"m{number}" for number in range(1001)])  # type: ignore[misc]
    largest = IntEnum("Largest", [f"m{number}" for number in range(1000)])  # type: ignore[misc]

    assert violations(
        make_entity("Part", {"part_id": Id[str], "a": Mixed, "b": Same | None, "c": huge, "d": largest})
    ) == [
        "Part.a: is of Mixed, which has values that are neither str nor int.",
        "Part.b: is of Same, which has two values with the same text.",
        "Part.c: is of Huge, which has 1001 members; at most 1,000 can be ordered.",
    ]


def test_cycle_of_derived_properties_is_reported() -> None:
    """A cycle of derived properties is reported."""

    class Part(Entity):
        part_id: Id[str]
        a: str = derived(str.upper, "b")
        b: str = derived(str.lower, "a")
        c: str = derived(str.lower, "c")

    (found,) = violations(Part)
    assert "is derived from itself" in found


def test_derived_property_of_nullable_source_is_nullable() -> None:
    """A derived property with a nullable source must be nullable."""

    class Part(Entity):
        part_id: Id[str]
        name: str | None = None
        short: str = derived(str.upper, "name")
        fine: str | None = derived(str.upper, "name")

    assert violations(Part) == ["Part.short: is null if name is null, and its type does not allow null."]


def test_canonical_form_of_a_number() -> None:
    """Only texts have a canonical form."""

    class Part(Entity):
        part_id: Id[str]
        number: int
        name: str
        fine: str = derived(canonical, "name")
        twice: str = derived(canonical, "fine")
        folded: str = derived(canonical, "number")

    assert violations(Part) == ["Part.folded: is the canonical form of number, which is no text."]


def test_derived_property_has_function_and_source() -> None:
    """A derived property has a function and at least one source."""

    class Part(Entity):
        part_id: Id[str]
        a: str = derived(str.upper)
        b: str = derived("part_id", "part_id")  # type: ignore[arg-type]

    assert violations(Part) == [
        "Part.a: is derived from no property.",
        "Part.b: is derived by 'part_id', which cannot be called.",
    ]


# --- indexes -----------------------------------------------------------------------------------------------------


def part(index: Any, **annotations: Any) -> list[str]:
    """The violations of an entity with one index `by_one`."""
    properties: dict[str, Any] = {"part_id": Id[str], "color": str, "rank": int, "tags": list[str], **annotations}
    return violations(make_entity("Part", properties, {"by_one": index}))


def test_index_name_starts_with_by() -> None:
    """The attribute of an index starts with `by_` and a letter, and is not `by_id`."""
    indexes = {name: Index(hash="rank", slot=f"slot{name}") for name in ("rank_order", "by_1st", "by_")}
    assert violations(make_entity("Part", {"part_id": Id[str], "rank": int}, indexes)) == [
        f"Part.{name}: is an index, and its name does not start with by_ and a letter." for name in indexes
    ]
    taken = violations(
        make_entity("Part", {"part_id": Id[str], "rank": int}, {"by_id": Index(sort="rank", name="other")})
    )
    assert "Part.by_id: replaces the primary index of the entity." in taken


@pytest.mark.parametrize("name", ["ab", "x" * 256, "a b", "a/b", "größe"])
def test_physical_index_name_has_plain_characters(name: str) -> None:
    """The name of a physical index has 3 to 255 plain characters."""
    assert f"Part.by_one: is called {name!r} in the table." in part(
        Index(sort="rank", name=name, hash_key="oneHashKey", range_key="oneRangeKey", hash="color")
    )


def test_key_attribute_name_has_plain_characters() -> None:
    """The name of a key attribute has at most 255 plain characters."""
    assert part(Index(hash="color", sort="rank", hash_key="a-b", range_key="x" * 256)) == [
        "Part.by_one: stores a key in the attribute 'a-b'.",
        f"Part.by_one: stores a key in the attribute {'x' * 256!r}.",
    ]


def test_index_has_slot_or_name() -> None:
    """An index has a slot or a name, not both."""
    assert part(Index(sort="rank", slot="gsi01", name="other")) == ["Part.by_one: has a slot and a name."]


def test_projection_is_not_empty() -> None:
    """An empty projection is refused; `KEYS_ONLY` is the alternative."""
    assert part(Index(sort="rank", projection=[])) == ["Part.by_one: has an empty projection."]


def test_index_properties_are_scalars() -> None:
    """Hash and sort properties are scalars."""
    assert part(Index(hash="tags", sort="rank")) == ["Part.by_one: is hashed by tags, which is no scalar."]
    assert part(Index(sort="tags")) == ["Part.by_one: is sorted by tags, which is no scalar."]


def test_index_property_is_unique() -> None:
    """An index contains each property at most once, as hash or sort property."""
    assert part(Index(hash=["color", "color"])) == ["Part.by_one: is hashed by color twice."]
    assert part(Index(sort=["rank", desc("rank")])) == ["Part.by_one: is sorted by rank twice."]
    assert part(Index(hash="color", sort=["color", "rank"])) == [
        "Part.by_one: is sorted by color, which is also a hash property."
    ]


def test_text_has_no_descending_order() -> None:
    """Only properties with an encoding of fixed width can be sorted in descending order."""
    assert part(Index(sort=desc("color"))) == [
        "Part.by_one: is sorted by color in descending order, which text does not support."
    ]
    assert part(Index(sort=[desc("rank"), desc("made"), "color"]), made=date) == []


def test_index_of_a_singleton_needs_a_sort_property() -> None:
    """An index of a singleton needs a sort property."""
    found = violations(make_entity("Part", {"rank": int}, {"by_one": Index(hash="rank")}))
    assert found == ["Part.by_one: has no sort property, and the entity has no id."]


def test_raw_index_has_one_plain_property() -> None:
    """A raw index has one ascending property, stored as text or number under its own name."""
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


def test_raw_enum_has_one_stored_type() -> None:
    """A raw index of an enum requires values that are all texts or all numbers."""

    class Level(Enum):
        LOW = 1
        HIGH = "high"

    assert part(Index(sort="level", raw=True), level=Level) == [
        "Part.by_one: is raw and sorted by level, which is stored neither as text nor as a number."
    ]


def test_property_names_leave_room_in_keys() -> None:
    """An index whose property names leave no room for values in its keys is reported."""
    annotations: dict[str, Any] = {f"{letter * 250}": str for letter in "abcdefghi"}
    names = list(annotations)
    found = violations(
        make_entity(
            "Part",
            {"part_id": Id[str], **annotations},
            {"by_order": Index(sort=names[:5]), "by_hash": Index(hash=names, hash_key="manyHashKey")},
        )
    )
    assert found == [
        "Part.by_order: has range values of at least 1272 bytes.",
        "Part.by_hash: has hash keys of at least 2275 bytes.",
    ]


# --- several indexes ---------------------------------------------------------------------------------------------


def test_indexes_of_an_entity_are_distinct() -> None:
    """Two indexes of one entity cannot have the same GraphQL name or physical index."""
    indexes = {
        "by_rank_one": Index(sort="rank"),
        "by_rankOne": Index(hash="color", name="other"),
        "by_third": Index(hash="color", name="other"),
    }
    assert violations(make_entity("Part", {"part_id": Id[str], "rank": int, "color": str}, indexes)) == [
        "Part.by_rankOne: is called 'rankOne' in GraphQL, as by_rank_one is.",
        "Part.by_third: uses the physical index 'other', as by_rankOne of the same entity does.",
    ]


def test_shared_key_attribute_has_one_meaning() -> None:
    """Two indexes of an entity can write the same key attribute only if they write the same key."""
    properties = {"part_id": Id[str], "maker_id": str, "maker": str, "rank": int}

    def found(one: Index, two: Index) -> list[str]:
        return violations(make_entity("Part", properties, {"by_one": one, "by_two": two}))

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


def test_shared_physical_index_has_one_definition() -> None:
    """Entities that share a physical index must agree on its attributes, their types and its projection."""

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


def test_table_index_limit() -> None:
    """A table has at most 20 physical indexes, or the declared number; a shared one counts once."""

    def entity_with_indexes(count: int) -> type[Entity]:
        indexes = {f"by_index_{number}": Index(hash="rank", sort="part_id") for number in range(count)}
        return make_entity("Part", {"part_id": Id[str], "rank": int}, indexes)

    class Other(Entity):
        other_id: Id[str]
        by_other = Index(hash="other_id", name="index0", hash_key="partRankHashKey", range_key="index0RangeKey")

    assert violations(entity_with_indexes(20), Other) == []
    assert violations(entity_with_indexes(21), Other) == ["Catalog.None: needs 21 indexes, and a table has at most 20."]
    assert violations(entity_with_indexes(30), max_indexes=30) == []
    assert violations(entity_with_indexes(31), max_indexes=30) == [
        "Catalog.None: needs 31 indexes, and a table has at most 30."
    ]
    assert violations(entity_with_indexes(1), max_indexes=-1) == ["Catalog.None: has max_indexes=-1."]


def test_table_projection_limit() -> None:
    """The projections of a table contain at most 100 named properties in total."""
    properties = {"part_id": Id[str], "rank": int, **{f"p{number}": str for number in range(51)}}
    names = [f"p{number}" for number in range(51)]

    def found(carried: int) -> list[str]:
        one = Index(hash="rank", sort="part_id", projection=names[:50])
        two = Index(hash="rank", sort="part_id", projection=names[:carried])
        return violations(make_entity("Part", properties, {"by_one": one, "by_two": two}))

    assert found(50) == []
    assert found(51) == ["Catalog.None: has projections of 101 named properties, and a table has at most 100."]


def test_table_has_one_time_to_live_attribute() -> None:
    """All entities of a table use the same stored attribute for their time to live, and only for that."""

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
        return make_entity("Licence", {"licence_id": Id[str], "expires": kind})

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


# --- several entities --------------------------------------------------------------------------------------------


class Parent(Entity, shards=Shards(1).then(16, since="2026-01-01")):
    """An entity with two shard generations."""

    parent_id: Id[str]
    created: Created[Timestamp]


def test_parent_is_an_entity_of_the_catalog() -> None:
    """An index is sharded like an entity of the catalog; the error suggests the nearest name."""

    class Child(Entity):
        child_id: Id[str]
        parent_id: str
        created: Created[Timestamp]
        by_parent = Index(hash="parent_id", sharded="Parnet")

    with pytest.raises(InvalidCatalog, match=r"like 'Parnet', which is no entity .* Did you mean 'Parent'\?"):
        Catalog(Parent, Child)


def test_index_like_a_parent_is_hashed_by_its_ids() -> None:
    """An index that is sharded like a parent is hashed by properties of the number and types of the parent's ids."""

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
def test_index_like_a_parent_needs_its_creation_property(created: Any, problem: str) -> None:
    """An index sharded like a parent with several generations needs a creation property of the same type."""
    annotations = {"child_id": Id[str], "parent_id": str, **({"created": created} if created is not None else {})}
    child = make_entity("Child", annotations, {"by_parent": Index(hash="parent_id", sharded="Parent")})
    assert violations(Parent, child) == [
        f"Child.by_parent: is sharded like Parent, which has several shard generations, and {problem}"
    ]


def test_children_of_one_parent_have_distinct_physical_indexes() -> None:
    """Two entities that are sharded like the same parent need different physical indexes."""

    def child(name: str) -> type[Entity]:
        return make_entity(
            name,
            {f"{name}_id": Id[str], "parent_id": str, "created": Created[Timestamp]},
            {"by_parent": Index(hash="parent_id", sharded="Parent", slot="gsi01")},
        )

    assert violations(Parent, child("One"), child("Two")) == [
        "Two.by_parent: uses the physical index 'gsi01' with hash keys of 'parent', as One.by_parent does."
    ]


def test_record_in_an_index_of_another_entity_is_reported() -> None:
    """A record with the key attributes of another entity's index, under the same hash key, is reported."""

    class Email(Entity):
        email: Id[str]
        parent_id: str
        created: Created[Timestamp]
        by_parent = Index(hash="parent_id", sort="created", sharded="Parent", raw=True, name="parentCreated")

    def order(**index: Any) -> type[Entity]:
        return make_entity(
            "Order",
            {"order_id": Id[str], "parent_id": str, "created": Created[Timestamp]},
            {"by_owner": Index(hash="parent_id", sharded="Parent", **index)},
        )

    (found,) = violations(Parent, Email, order())
    assert found.startswith(
        "Order.by_owner: adds its records to the physical index 'parentCreated' of Email: they have"
    )
    assert violations(Parent, Email, order(hash_key="ownerHashKey")) == []


def test_raw_attribute_has_one_stored_type() -> None:
    """The property of a raw index has one stored type in all entities, and is never stored as null."""

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


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"record_bytes": 300, "max_record_bytes": 300}, None),
        ({"max_record_bytes": 409_600}, None),
        ({"max_record_bytes": 409_601}, "declares max_record_bytes=409601, which is no size of a record."),
        ({"record_bytes": 0}, "declares record_bytes=0, which is no size of a record."),
        ({"record_bytes": True}, "declares record_bytes=True, which is no size of a record."),
        ({"max_record_bytes": "2 KB"}, "declares max_record_bytes='2 KB', which is no size of a record."),
        ({"record_bytes": 301, "max_record_bytes": 300}, "declares a record_bytes above its max_record_bytes."),
    ],
)
def test_sizes_of_records(sizes: dict[str, Any], problem: str | None) -> None:
    """Declared sizes of records are numbers of bytes that engines accept, the usual one up to the greatest."""
    found = violations(make_entity("Sized", {"sized_id": Id[str]}, **sizes))
    assert found == ([] if problem is None else [f"Sized.None: {problem}"])


def test_sizes_of_records_are_inherited() -> None:
    """An entity has the sizes of its base class, unless it declares its own."""

    class Base(Entity, record_bytes=100, max_record_bytes=1_000):
        base_id: Id[str]

    class Other(Base, max_record_bytes=2_000):
        pass

    catalog = Catalog(Base, Other)
    sizes = [(spec.record_bytes, spec.max_record_bytes) for spec in map(catalog.entity, (Base, Other))]
    assert sizes == [(100, 1_000), (100, 2_000)]
