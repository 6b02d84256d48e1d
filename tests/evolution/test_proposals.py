"""Proposals: what a catalog adds to the record of a table."""

from collections.abc import Callable, Collection
from dataclasses import replace
from enum import Enum
from types import new_class
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import WrongTable
from graphql_api.evolution.elements import State, declared_elements
from graphql_api.evolution.proposals import adopted, check_keys, proposed, taken_over
from graphql_api.evolution.table_record import TableRecord
from graphql_api.model import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Index,
    Int32,
    Shards,
    Timestamp,
    Unique,
    Version,
    derived,
)

EMPTY = TableRecord()


def first_letter(name: str) -> str:
    """The first version of a derived property."""
    return name[:1]


def last_letter(name: str) -> str:
    """The second version of a derived property."""
    return name[-1:]


def entity_model(name: str, namespace: dict[str, Any], base: type[Entity] = Entity, **options: Any) -> Any:
    """A class of an entity."""
    return new_class(name, (base,), options, lambda body: body.update(namespace))


def user_model(shards: Shards | None = None, **parts: Any) -> Any:
    """A class of users: annotated parts are pairs of annotation and default, all others are attributes."""
    annotations: dict[str, Any] = {"user_id": Id[str], "created": Created[Timestamp], "name": str}
    namespace: dict[str, Any] = {"__module__": __name__, "__annotations__": annotations}
    for name, part in parts.items():
        if isinstance(part, tuple):
            annotations[name], namespace[name] = part
        else:
            namespace[name] = part
    options: dict[str, Any] = {} if shards is None else {"shards": shards}
    return entity_model("User", namespace, **options)


def users(shards: Shards | None = None, **parts: Any) -> Catalog:
    """A catalog of users."""
    return Catalog(user_model(shards, **parts))


class Town(Entity):
    """A parent."""

    town_id: Id[str]


TOWN = (str | None, None)
PARTS: dict[str, dict[str, Any]] = {
    "town": {"town_id": TOWN},
    "index": {"town_id": TOWN, "by_town": Index(hash="town_id")},
    "sorted": {"by_name": Index(sort="name")},
    "unique": {"email": (Unique[str] | None, None)},
    "version": {"revision": (Version[Int32], ...)},
    "derived": {"letter": (str | None, derived(first_letter, "name")), "by_letter": Index(hash="letter")},
    "parent": {"town_id": TOWN, "of_town": ForeignKey("Town", by="town_id")},
}


def catalog_with(names: Collection[str]) -> Catalog:
    """A catalog of towns, and of users with some of the parts."""
    return Catalog(Town, user_model(**{key: part for name in sorted(names) for key, part in PARTS[name].items()}))


CATALOGS = st.sets(st.sampled_from([*PARTS])).map(catalog_with)


def states(record: TableRecord) -> dict[str, State]:
    """The state of each element by id."""
    return {key: one.state for key, one in record.elements.items()}


def in_state(record: TableRecord, key: str, state: State) -> TableRecord:
    """The record with an element in another state."""
    return record.changed(replace(record.elements[key], state=state))


# --- laws ------------------------------------------------------------------------------------------------------


@given(st.lists(CATALOGS, max_size=4))
def test_proposing_again_changes_nothing(catalogs: list[Catalog]) -> None:
    """A second proposal of any catalog that the table has seen returns the same record."""
    record = EMPTY
    for catalog in catalogs:
        record = proposed(record, catalog)
    for catalog in catalogs:
        assert proposed(record, catalog) is record


@given(CATALOGS, CATALOGS)
def test_the_order_of_two_catalogs_matters_only_for_states(one: Catalog, two: Catalog) -> None:
    """Two catalogs give a new table the same entities and elements in either order."""
    forward, backward = proposed(proposed(EMPTY, one), two), proposed(proposed(EMPTY, two), one)
    assert {key: recorded.element for key, recorded in forward.elements.items()} == {
        key: recorded.element for key, recorded in backward.elements.items()
    }
    assert forward.entities == backward.entities


@given(CATALOGS, CATALOGS)
def test_elements_of_known_entities_are_announced(first: Catalog, second: Catalog) -> None:
    """What the first catalog declares is ready; what the second one adds is announced, but properties."""
    created = proposed(EMPTY, first)
    assert set(states(created).values()) == {"ready"}
    added = states(proposed(created, second)).items() - states(created).items()
    assert {state for key, state in added if key.startswith("user property")} <= {"ready"}
    assert {state for key, state in added if not key.startswith("user property")} <= {"announced"}


# --- states ----------------------------------------------------------------------------------------------------


def test_a_foreign_key_to_a_known_entity_is_announced() -> None:
    """A new child of a known parent concerns the parent too: its foreign key is announced, all else is ready."""
    record = proposed(proposed(EMPTY, Catalog(Town)), Catalog(Town, user_model(**PARTS["parent"], **PARTS["sorted"])))
    assert {key for key, state in states(record).items() if state != "ready"} == {"user foreign key ofTown"}


def test_an_index_without_a_physical_index_is_announced() -> None:
    """Even the index of a new entity is announced if its physical index is missing."""
    record = proposed(EMPTY, users(**PARTS["sorted"]), missing={"name"})
    assert states(record)["user index name"] == "announced"


def test_an_announced_definition_may_be_replaced() -> None:
    """A definition that was never built is replaced by the next proposal, and by the first one again."""
    known = proposed(EMPTY, users(town_id=TOWN))
    by_town = users(town_id=TOWN, by_place=Index(hash="town_id", name="place"))
    by_name = users(town_id=TOWN, by_place=Index(sort="name", name="place"))
    for catalog in (by_town, by_name, by_town):
        known = proposed(known, catalog)
        assert known.elements["user index place"].element == declared_elements(catalog)["user index place"]
        assert known.elements["user index place"].epoch == known.epoch


@pytest.mark.parametrize("state", ["building", "ready"])
def test_a_built_definition_is_not_replaced(state: State) -> None:
    """Another definition of an element that is being built, or ready, is refused with the remedy."""
    by_town = users(town_id=TOWN, by_place=Index(hash="town_id", name="place"))
    record = in_state(proposed(EMPTY, by_town), "user index place", state)
    with pytest.raises(WrongTable, match=rf"which is {state}: hash is townId \w+ in the table, and nothing.*name="):
        proposed(record, users(town_id=TOWN, by_place=Index(sort="name", name="place")))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            Catalog(Town, user_model(town_id=TOWN, of_town=ForeignKey("Town", by="town_id"))),
            Catalog(Town, user_model(town_id=TOWN, of_town=ForeignKey("Town", by="name"))),
            r"by is townId \w+ in the table, and name text in the catalog\. Declare the new one in addition\. Once",
        ),
        (
            users(Shards(1).then(4, since=1_000)),
            users(Shards(1).then(8, since=1_000)),
            r"size is 4 in the table, and 8 in the catalog\. Declare it as the table has it",
        ),
    ],
)
def test_the_remedy_depends_on_the_kind(first: Catalog, second: Catalog, message: str) -> None:
    """What has no name= of its own gets another remedy than an index."""
    record = proposed(EMPTY, first)
    with pytest.raises(WrongTable, match=message):
        proposed(record, second)


@pytest.mark.parametrize("state", ["closing", "dropping"])
@pytest.mark.parametrize("index", [Index(hash="town_id", name="place"), Index(sort="name", name="place")])
def test_what_is_being_removed_is_not_announced_again(state: State, index: Index) -> None:
    """A catalog that declares an element which is being removed, in any form, opens the table and leaves it so."""
    record = in_state(
        proposed(EMPTY, users(town_id=TOWN, by_place=Index(hash="town_id", name="place"))), "user index place", state
    )
    assert proposed(record, users(town_id=TOWN, by_place=index)) is record


# --- entities and keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        (users(Shards(4)), "the size of the first shard generation 1, and the catalog declares 4"),
        (users(Shards(1, width=3)), "shards of width 2, and the catalog declares 3"),
        (users(Shards(1, function="string-hash")), "the shard function blake2b, and the catalog declares string-hash"),
    ],
)
def test_record_keys_never_change(catalog: Catalog, message: str) -> None:
    """A catalog with other shards than the stored ones is refused."""
    with pytest.raises(WrongTable, match=f"User was stored with {message}: this can never change"):
        proposed(proposed(EMPTY, users()), catalog)


def test_attributes_of_indexes_never_conflict() -> None:
    """An index that stores an attribute otherwise than another one is refused, but not for a mere proposal."""
    by_town = users(town_id=TOWN, by_town=Index(hash="town_id", hash_key="place", name="town"))
    by_name = users(town_id=TOWN, by_name=Index(hash="name", hash_key="place", name="name"))
    with pytest.raises(WrongTable, match=r"stores place as user, name text, and the index user\.town of the table"):
        proposed(proposed(EMPTY, by_town), by_name)
    both = proposed(proposed(proposed(EMPTY, users(town_id=TOWN)), by_town), by_name)
    assert states(both)["user index town"] == states(both)["user index name"] == "announced"
    built = in_state(both, "user index town", "building")
    with pytest.raises(WrongTable, match="stores place as"):
        check_keys(built, built.elements["user index name"].element)


def test_entities_share_a_physical_index_only_if_they_agree() -> None:
    """Another entity's index in the same physical index needs the same key attributes and projection."""

    class Email(Entity):
        email: Id[str]
        town: str | None = None
        by_town = Index(hash="town", name="name")

    class Phone(Entity):
        phone: Id[str]
        name: str | None = None
        by_name = Index(sort="name")

    known = proposed(EMPTY, users(**PARTS["sorted"]))
    with pytest.raises(WrongTable, match=r"index email\.name needs a physical index with hashAttribute 'emailTown"):
        proposed(known, Catalog(Email))
    assert states(proposed(known, Catalog(Phone)))["phone index name"] == "ready"


def test_members_of_an_enum_are_added_to_the_record() -> None:
    """An enum with more members extends the recorded definition; the catalog with fewer ones changes nothing."""
    kinds: list[Any] = [Enum("Kind", dict(zip(members, members, strict=True))) for members in ("a", "ab")]
    old, new = (users(kind=(kind | None, None), by_kind=Index(hash="kind")) for kind in kinds)
    record = proposed(proposed(EMPTY, old), new)
    assert record.elements["user index kind"].element.definition["hash"][0]["members"] == ["a", "b"]
    assert record.elements["user index kind"].state == "ready"
    assert proposed(record, old) is record


# --- derived properties and generations ------------------------------------------------------------------------


def letters(version: int = 1, previous: Callable[[str], str] | None = None) -> Catalog:
    """A catalog with a version of a derived property."""
    rule = derived(last_letter, "name", version=version, previous=previous)
    return users(letter=(str | None, rule), by_letter=Index(hash="letter"))


def test_a_new_version_needs_the_previous_function() -> None:
    """The next version of a derived property is announced with the function before, and refused without it."""
    known = proposed(EMPTY, letters())
    assert states(proposed(known, letters(2, first_letter)))["user derived property letter@2"] == "announced"
    with pytest.raises(WrongTable, match=r"User.letter has version 2 in the catalog, and 1 in the table.*previous="):
        proposed(known, letters(2))
    with pytest.raises(WrongTable, match="version=2, previous=…"):
        proposed(known, letters(3, first_letter))


def test_an_older_version_is_not_announced_again() -> None:
    """A server with the version before opens the table, and does not propose what the table has left behind."""
    record = in_state(
        proposed(proposed(EMPTY, letters()), letters(2, first_letter)), "user derived property letter@2", "ready"
    )
    record = record.changed(forgotten=frozenset({"user derived property letter@1"}))
    assert proposed(record, letters()) is record


def test_a_replaced_generation_takes_back_the_later_ones() -> None:
    """Generations that follow a replaced one are forgotten: only their own catalog proposes them again."""
    known = proposed(EMPTY, users())
    record = proposed(known, users(Shards(1).then(4, since=100).then(8, since=200)))
    record = proposed(record, users(Shards(1).then(2, since=300)))
    generations = {key: one.element.definition["since"] for key, one in record.elements.items() if "generation" in key}
    assert generations == {"user generation 1": "300"}


# --- tables of the earlier format ------------------------------------------------------------------------------

EARLIER = {
    "spaces": {
        "user": {"width": 2, "function": "blake2b", "generations": [{"size": 1}, {"size": 4, "since": "100"}]},
        "town": {"width": 2, "function": "blake2b", "generations": [{"size": 3}]},
    },
    "indexes": {
        "user": {
            "id": "hashKey: user; rangeKey: userId text",
            "name": "hashKey: user; nameRangeKey: name text, userId text",
        }
    },
}


def test_a_table_of_the_earlier_format_is_taken_over_entity_by_entity() -> None:
    """Recorded indexes and generations are ready but unchecked; new indexes are announced; other entities wait."""
    parts = {**PARTS["sorted"], **PARTS["index"], **PARTS["unique"]}
    catalog = users(Shards(1).then(4, since=100).then(8, since=900), **parts)
    record = proposed(taken_over(EMPTY, EARLIER, catalog), catalog)
    assert {key: state for key, state in states(record).items() if state != "ready"} == {
        "user index town": "announced",
        "user generation 2": "announced",
    }
    assert {key for key, one in record.elements.items() if not one.is_checked and one.state == "ready"} == {
        "user index name",
        "user unique email",
        "user generation 1",
    }
    assert [*record.earlier] == ["town"]
    assert TableRecord.from_item(record.to_item()) == record
    other = Catalog(entity_model("Town", {"__module__": __name__}, Town, shards=Shards(3)))
    later = proposed(record, other)
    assert later.entities["town"]["size"] == 3
    assert not later.earlier
    assert later.epoch > record.epoch
    assert adopted(later, other) is later
    with pytest.raises(WrongTable, match="Town was stored with the size of the first shard generation 3"):
        proposed(record, Catalog(Town))


def test_an_earlier_table_with_another_order_is_refused() -> None:
    """An index whose entries an earlier release stored in another order is refused, as it was then."""
    catalog = users(Shards(1).then(4, since=100), by_name=Index(sort=("name", "created")))
    with pytest.raises(WrongTable, match="by_name are stored as hashKey: user; nameRangeKey: name text, userId text"):
        taken_over(EMPTY, EARLIER, catalog)


def test_a_new_version_on_an_earlier_table_is_announced() -> None:
    """The records of an earlier release hold the first version of a derived property."""
    catalog = letters(2, first_letter)
    spaces = {"user": {"width": 2, "function": "blake2b", "generations": [{"size": 1}]}}
    record = proposed(taken_over(EMPTY, {"spaces": spaces}, catalog), catalog)
    assert states(record)["user derived property letter@1"] == "ready"
    assert states(record)["user derived property letter@2"] == "announced"
