"""Declarations of entities: names, keys, indexes and the table that they produce."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import new_class
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import Field, ValidationError

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
    codecs,
    derived,
    desc,
    stored,
)
from graphql_api.errors import InvalidCatalog, UnknownEntity, UnknownIndex
from graphql_api.model.markers import IndexRef
from graphql_api.storage.values import IndexDefinition


class User(Entity, shards=Shards(1).then(16, since="2026-01-01")):
    """A person whose card transactions are rounded up for a beneficiary."""

    user_id: Id[str]
    beneficiary_id: str
    created: Created[Timestamp]
    updated: Timestamp
    first_name: str
    """as the person writes it"""
    last_name: str = Field(description="of the family")
    phone: str | None = None
    first_name_canonical: str = derived(canonical, "first_name")
    last_name_canonical: str = derived(canonical, "last_name")

    by_created = Index(sort="created", raw=True)
    by_first_name = Index(sort=["first_name_canonical", "last_name_canonical", "created"])
    by_last_name = Index(sort=["last_name_canonical", "first_name_canonical", "created"])
    by_beneficiary_created = Index(hash="beneficiary_id", sort="created", name="userBeneficiaryCreated", raw=True)
    by_beneficiary_first_name = Index(
        hash="beneficiary_id",
        sort=["first_name_canonical", "last_name_canonical", "created"],
        name="userBeneficiaryFirstName",
        range_key="firstNameRangeKey",
    )


class Email(Entity):
    """An address of a user."""

    email: Id[str]
    user_id: str
    created: Created[Timestamp]

    by_created = Index(sort="created", raw=True)
    by_user = Index(hash="user_id", sort="created", sharded="User", name="userCreated", raw=True)


class OrderTracking(Entity):
    """The history of the states of an order."""

    order_id: Id[str]
    changed_at: SubId[str]
    customer_id: str | None = None
    status: str
    total: float

    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")


class Component(Entity, separator=":"):
    """An entity with a composite id and a composite sub id."""

    environment: Id[str]
    plugin: Id[str]
    category: SubId[str]
    release: SubId[Int32]


class Totals(Entity, name="total"):
    """A singleton entity."""

    orders: int = 0


CATALOG = Catalog(User, Email, OrderTracking, Component, Totals)


def names(parts: Any) -> list[str]:
    """The stored names of properties or sort properties."""
    return [getattr(part, "property", part).stored for part in parts]


# --- key patterns ------------------------------------------------------------------------------------------------


def test_entity_is_found_by_class_or_name() -> None:
    """A catalog finds an entity by class, class name, and name in hash keys."""
    spec = CATALOG.entity(OrderTracking)
    assert spec is CATALOG.entity("OrderTracking") is CATALOG.entity("orderTracking")
    assert (spec.name, spec.type_name, spec.model) == ("orderTracking", "OrderTracking", OrderTracking)
    assert list(CATALOG.entities) == ["user", "email", "orderTracking", "component", "total"]


def test_primary_index_of_a_single_id() -> None:
    """An entity with a single id has the id as the only column of its primary index."""
    index = CATALOG.index(User.by_id)
    assert (index.physical, index.hash_attribute, index.range_attribute) == (None, "hashKey", "rangeKey")
    assert (index.id_prefix, names(index.sort), index.tie_breaker, index.hash) == ((), ["userId"], (), ())


def test_primary_index_of_a_history() -> None:
    """In a history, the id is the prefix of the range key, and conditions apply to the sub id."""
    index = CATALOG.index(OrderTracking.by_id)
    assert (names(index.id_prefix), names(index.sort), index.tie_breaker) == (["orderId"], ["changedAt"], ())


def test_primary_index_of_composite_ids() -> None:
    """Composite ids and sub ids keep their declared order."""
    spec, index = CATALOG.entity(Component), CATALOG.index(Component.by_id)
    assert (names(index.id_prefix), names(index.sort)) == (["environment", "plugin"], ["category", "release"])
    assert [column.name for column in index.columns] == ["environment", "plugin", "category", "release"]
    assert names(spec.primary_key) == ["environment", "plugin", "category", "release"]
    assert spec.separator == ":"


def test_primary_index_of_a_singleton() -> None:
    """An entity without an id is a singleton. `name=` sets its name."""
    spec = CATALOG.entity(Totals)
    assert (spec.name, spec.ids, spec.indexes["by_id"].columns) == ("total", (), ())


# --- indexes ---------------------------------------------------------------------------------------------------


def test_index_reference() -> None:
    """A class attribute of an index is a hashable reference, which the catalog resolves."""
    assert User.by_first_name == IndexRef(User, "by_first_name")
    assert len({User.by_first_name, User.by_first_name, User.by_id, Email.by_id}) == 3
    assert CATALOG.index(User.by_first_name) is CATALOG.index(CATALOG.entity(User), "by_first_name")
    assert CATALOG.index(User.by_first_name).name == "firstName"


def test_range_key_ends_with_the_primary_key() -> None:
    """The range key of an index ends with the parts of the primary key that its sort properties do not contain."""
    assert [column.name for column in CATALOG.index(User.by_first_name).columns] == [
        "firstNameCanonical",
        "lastNameCanonical",
        "created",
        "userId",
    ]
    assert names(CATALOG.index(OrderTracking.by_status).tie_breaker) == ["orderId"]
    assert names(CATALOG.index(OrderTracking.by_customer_id).tie_breaker) == ["orderId", "changedAt"]


def test_physical_names_derive_from_the_declaration() -> None:
    """Names of physical indexes and key attributes derive from the index name, its hash properties and its sharding."""

    class Part(Entity):
        part_id: Id[str]
        maker_id: str
        color: str
        by_maker_color = Index(hash=["maker_id", "color"], sort=desc("rank"))
        by_rank = Index(sort="rank", sharded=False)
        by_maker = Index(hash="maker_id", sharded=False)
        by_color = Index(hash="color", slot="gsi01")
        by_first = Index(hash="color", hash_key="firstHash", range_key="firstRange")
        rank: int

    catalog = Catalog(Part)
    found = {
        index.name: (index.physical, index.hash_attribute, index.range_attribute)
        for index in catalog.entity(Part).indexes.values()
    }
    assert found == {
        "id": (None, "hashKey", "rangeKey"),
        "makerColor": ("makerColor", "partMakerColorHashKey", "makerColorRangeKey"),
        "rank": ("rank", "partUnshardedHashKey", "rankRangeKey"),
        "maker": ("maker", "partMakerUnshardedHashKey", "makerRangeKey"),
        "color": ("gsi01", "gsi01HashKey", "gsi01RangeKey"),
        "first": ("first", "firstHash", "firstRange"),
    }
    assert catalog.index(Part.by_maker_color).sort[0].descending
    assert [len(catalog.index(ref).space.generations) for ref in (Part.by_rank, Part.by_maker)] == [1, 1]


def test_index_sharded_like_a_parent() -> None:
    """An index that is sharded like a parent uses the parent's name and shard space."""
    index, parent = CATALOG.index(Email.by_user), CATALOG.entity(User)
    assert (index.hash_entity, index.space, index.sharded_like_parent) == ("user", parent.space, True)
    assert (index.hash_attribute, index.range_attribute, index.physical) == ("userHashKey", "created", "userCreated")
    assert CATALOG.index(Email.by_created).space != parent.space


def test_entities_share_physical_indexes_by_name() -> None:
    """Entities share a physical index by name. The key of a raw index has the type of its property."""
    table = CATALOG.table_definition()
    assert [index.name for index in table.indexes] == [
        "created",
        "firstName",
        "lastName",
        "userBeneficiaryCreated",
        "userBeneficiaryFirstName",
        "userCreated",
        "customerId",
        "status",
    ]
    assert table.indexes[0] == IndexDefinition("created", "hashKey", "created", "N", "ALL")
    assert table.indexes[4] == IndexDefinition(
        "userBeneficiaryFirstName", "userBeneficiaryHashKey", "firstNameRangeKey", "S", "ALL"
    )


def test_projection_contains_stored_names() -> None:
    """A projection contains stored names, sorted, without the key attributes."""

    class Part(Entity):
        part_id: Id[str]
        color: Annotated[str, stored("c")]
        made: Timestamp
        by_made = Index(sort="made", raw=True, projection=["made", "color", "part_id"])
        by_color = Index(hash="color", projection="KEYS_ONLY")

    catalog = Catalog(Part)
    assert catalog.index(Part.by_made).projection == ("c", "made", "partId")
    assert [index.projection for index in catalog.table_definition().indexes] == [("c", "partId"), "KEYS_ONLY"]


def test_unknown_name_suggests_the_nearest() -> None:
    """A catalog suggests the nearest name for an unknown entity or index."""
    with pytest.raises(UnknownEntity, match="Did you mean 'OrderTracking'"):
        CATALOG.entity("OrderTrakcing")
    with pytest.raises(UnknownIndex, match="Did you mean 'by_status'"):
        CATALOG.index(OrderTracking, "by_state")


# --- properties ------------------------------------------------------------------------------------------------


class Color(StrEnum):
    RED = "r"
    GREEN = "g"


def test_type_determines_the_codec() -> None:
    """The type of a property determines its codec, with any markers; non-scalar types have no codec."""

    class Everything(Entity):
        id: Id[UUID]
        text: str
        number: int
        small: Int32 | None = None
        seconds: Ttl[Timestamp] | None = None
        milliseconds: Annotated[TimestampMs, stored("ms")]
        ratio: float
        price: Decimal
        flag: bool
        day: date | None = None
        moment: Created[datetime]
        length: timedelta
        color: Color
        word: Literal["a", "b"]
        either: int | str
        many: list[Id[str]]
        anything: Any = None

    spec = Catalog(Everything).entity(Everything)
    assert {name: part.codec for name, part in spec.properties.items()} == {
        "id": codecs.Uuid(),
        "text": codecs.Text(),
        "number": codecs.Int64(),
        "small": codecs.Int32(),
        "seconds": codecs.Timestamp(),
        "milliseconds": codecs.TimestampMs(),
        "ratio": codecs.Float64(),
        "price": codecs.DecimalNumber(),
        "flag": codecs.Boolean(),
        "day": codecs.Date(),
        "moment": codecs.DateTime(),
        "length": codecs.Duration(),
        "color": codecs.EnumCodec(Color),
        "word": codecs.Text(),
        "either": None,
        "many": None,
        "anything": None,
    }
    assert [name for name, part in spec.properties.items() if part.nullable] == ["small", "seconds", "day", "anything"]
    assert spec.ids == (spec.properties["id"],)
    assert (spec.ttl, spec.created) == (spec.properties["seconds"], spec.properties["moment"])
    assert spec.properties["milliseconds"].stored == "ms"


def test_stored_names_are_camel_case() -> None:
    """The stored name is the Python name in camelCase, without trailing underscores."""

    class Part(Entity, name="x"):
        part_id: Id[str]
        class_: str
        line_2: str
        already_camelCase: str  # noqa: N815

    assert names(Catalog(Part).entity(Part).properties.values()) == ["partId", "class", "line2", "alreadyCamelCase"]


@pytest.mark.parametrize(
    ("class_name", "name"),
    [("User", "user"), ("OrderTracking", "orderTracking"), ("HTTPLog", "httpLog"), ("SKU", "sku"), ("X", "x")],
)
def test_entity_name_is_the_class_name_in_camel_case(class_name: str, name: str) -> None:
    """The entity name is the class name in camelCase; a leading acronym becomes lower case."""
    model = new_class(class_name, (Entity,))
    assert issubclass(model, Entity)
    assert model.__declaration__.name == name


def test_descriptions_come_from_docstrings() -> None:
    """Descriptions come from docstrings of classes and properties, and from field descriptions."""
    spec = CATALOG.entity(User)
    assert spec.description == "A person whose card transactions are rounded up for a beneficiary."
    assert spec.properties["first_name"].description == "as the person writes it"
    assert spec.properties["last_name"].description == "of the family"

    class Silent(Entity):
        silent_id: Id[str]

    assert Catalog(Silent).entity(Silent).description is None


def test_subclass_inherits_properties_indexes_and_shards() -> None:
    """Subclasses inherit everything except the name, and an inherited index belongs to the subclass."""

    class Stamped(Entity, shards=Shards(4), separator="|", name="stamp"):
        created: Created[Timestamp]
        by_created = Index(sort="created")

    class Note(Stamped):
        note_id: Id[str]

    class Memo(Stamped, shards=Shards(2), separator="-"):
        memo_id: Id[str]

    catalog = Catalog(Note, Memo)
    note, memo = catalog.entity(Note), catalog.entity(Memo)
    references: list[IndexRef] = [Note.by_created, Memo.by_created]
    assert references == [IndexRef(Note, "by_created"), IndexRef(Memo, "by_created")]
    assert references[0] != references[1]
    assert names(catalog.index(Note.by_created).tie_breaker) == ["noteId"]
    assert (note.name, note.separator, note.space.generations[0].size) == ("note", "|", 4)
    assert (memo.name, memo.separator, memo.space.generations[0].size) == ("memo", "-", 2)
    assert [index.name for index in catalog.table_definition().indexes] == ["created"]


def test_subclass_replaces_an_inherited_index() -> None:
    """An index that is redeclared replaces the inherited one."""

    class Base(Entity):
        base_id: Id[str]
        rank: int
        by_rank = Index(sort="rank")

    class Other(Base):
        by_rank = Index(sort=desc("rank"))

    assert Catalog(Other).index(Other.by_rank).sort[0].descending


# --- derived properties ----------------------------------------------------------------------------------------


def user(**changes: Any) -> User:
    """A valid user with changes."""
    given = {
        "user_id": "u",
        "beneficiary_id": "b",
        "created": 1,
        "updated": 2,
        "first_name": "José",
        "last_name": "Ruíz",
    }
    return User(**{**given, **changes})


def test_derived_property_ignores_provided_value() -> None:
    """A derived property ignores a provided value."""
    assert user().first_name_canonical == "jose"
    assert user(first_name_canonical=["no", "text"]).first_name_canonical == "jose"


def test_derived_properties_are_recomputed() -> None:
    """Derived properties can depend on each other in any declared order, and can be recomputed after a change."""

    class Part(Entity):
        shout: str = derived(str.upper, "short")
        short: str = derived(canonical, "name")
        name: str
        part_id: Id[str]

    part = Part(part_id="p", name="Ä-b")
    assert (part.short, part.shout) == ("ab", "AB")
    part.name = "ö"
    part.compute_derived()
    assert (part.short, part.shout) == ("o", "O")


def test_derived_property_is_null_if_a_source_is_null() -> None:
    """A derived property is null if a source is null; the function is not called."""

    class Part(Entity):
        part_id: Id[str]
        name: str | None = None
        maker: str
        label: str | None = derived("{}/{}".format, "name", "maker")

    assert Part(part_id="p", maker="m").label is None
    assert Part(part_id="p", maker="m", name="n").label == "n/m"


def test_search_function_of_a_derived_property() -> None:
    """The search function of a property with one source is its derivation function."""

    class Part(Entity):
        part_id: Id[str]
        short: str = derived(canonical, "part_id")
        label: str = derived("{}{}".format, "part_id", "short")

    properties = Catalog(Part).entity(Part).properties
    assert properties["short"].search_function is canonical
    assert properties["label"].search_function is None
    assert properties["part_id"].search_function is None


# --- errors at class creation ------------------------------------------------------------------------------------


def test_unknown_property_names_fail_at_class_creation() -> None:
    """Unknown property names fail at class creation. The error lists all of them with the nearest names."""
    with pytest.raises(InvalidCatalog) as failure:

        class Part(Entity):
            part_id: Id[str]
            maker: str
            label: str = derived(canonical, "mkaer")
            by_maker = Index(hash="makr", sort=["part_id", desc("lable")], projection=["maker", "part"])
            by_label = Index(sort="label", projection="KEYSONLY")

    found = [(one.entity, one.property, one.remedy) for one in failure.value.violations]
    assert found == [
        ("Part", "by_maker", "Did you mean 'maker'?"),
        ("Part", "by_maker", "Did you mean 'label'?"),
        ("Part", "by_maker", "Did you mean 'part_id'?"),
        ("Part", "by_label", 'Set "ALL", "KEYS_ONLY" or a list of properties.'),
        ("Part", "label", "Did you mean 'maker'?"),
    ]


def test_error_lists_all_properties_if_none_is_similar() -> None:
    """If no name is similar to an unknown name, the error lists all properties."""
    with pytest.raises(InvalidCatalog, match="Its properties are part_id, maker"):

        class Part(Entity):
            part_id: Id[str]
            maker: str
            by_maker = Index(hash="zzz")


@pytest.mark.parametrize(
    ("annotation", "default", "valid", "invalid"),
    [
        (Int32, Field(default=1, ge=0), (0, 2**31 - 1), (-1, 2**31)),
        (Int32, Field(default=1, lt=10), (-(2**31), 9), (-(2**31) - 1, 10)),
        (Int32 | None, Field(default=None, gt=3), (4, None), (3, 2**31)),
        (Annotated[Int32, Field(le=2**40)], 1, (2**31 - 1,), (2**31,)),
        (list[Annotated[Int32, Field(ge=0)]], [], ([0],), ([-1], [2**31])),
        (Timestamp, Field(default=0, ge=0), (0, 2**53), (-1, 2**53 + 1)),
        (TimestampMs, Field(default=0, multiple_of=10), (-(2**53) + 2, 10), (5, -(2**53) - 8)),
    ],
)
def test_bounds_of_type_and_property_both_apply(
    annotation: Any, default: Any, valid: tuple[Any, ...], invalid: tuple[Any, ...]
) -> None:
    """A value must satisfy the bounds of its property and the bounds of `Int32`, `Timestamp` or `TimestampMs`."""
    body = {"__module__": __name__, "__annotations__": {"bounded_id": Id[str], "value": annotation}, "value": default}
    bounded: Any = new_class("Bounded", (Entity,), {}, lambda namespace: namespace.update(body))
    for value in valid:
        assert bounded(bounded_id="b", value=value).value == value
    for value in invalid:
        with pytest.raises(ValidationError):
            bounded(bounded_id="b", value=value)


def test_record_refuses_invalid_values() -> None:
    """A record refuses unknown properties, NaN, and numbers out of range."""
    with pytest.raises(ValidationError, match="frist_name"):
        user(frist_name="x")
    with pytest.raises(ValidationError, match="finite"):
        OrderTracking(order_id="o", changed_at="c", status="s", total=float("nan"))
    with pytest.raises(ValidationError, match="less than or equal"):
        user(created=2**53 + 1)
    with pytest.raises(ValidationError, match="less than or equal"):
        Component(environment="e", plugin="p", category="c", release=2**31)
