"""The catalog that a server acts on, for its own catalog and a copy of the table's record."""

from dataclasses import fields, replace
from typing import Any, cast

import pytest
from hypothesis import given

from graphql_api.errors import CatalogBehind, NotReady, ShardQLError, TokenAhead, UnknownArgument
from graphql_api.evolution import effective_catalog, placed_generation
from graphql_api.evolution.elements import State
from graphql_api.evolution.proposals import proposed
from graphql_api.evolution.table_record import TableRecord
from graphql_api.model import (
    Catalog,
    Created,
    Entity,
    EntitySpec,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Union,
    Updated,
    Version,
    derived,
    record_key,
)
from graphql_api.query import NamingScheme, SearchPlan, SearchRequest, TokenSeal, plan_search, property_reader
from graphql_api.query.page_token import pack
from graphql_api.writes import Update
from graphql_api.writes.preconditions import check_command
from tests.evolution.test_proposals import (
    CATALOGS,
    EMPTY,
    PARTS,
    TOWN,
    Town,
    entity_model,
    first_letter,
    in_state,
    letters,
    user_model,
    users,
)

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])


def merged(catalog: Catalog, record: TableRecord, name: str = "user") -> EntitySpec:
    """The entity that a server with this catalog acts on."""
    return effective_catalog(catalog, record).entities[name]


def plan(catalog: Catalog, record: TableRecord, index: str, entity: str = "user", **options: Any) -> SearchPlan:
    """The plan of a search by a server with this catalog."""
    return plan_search(effective_catalog(catalog, record), SearchRequest(entity, index, **options), 0, SEAL)


def problem_of(catalog: Catalog, record: TableRecord, index: str, **options: Any) -> ShardQLError:
    """The error of a search."""
    with pytest.raises(ShardQLError) as raised:
        plan(catalog, record, index, **options)
    return raised.value


# --- equality with the declaration -----------------------------------------------------------------------------


@given(CATALOGS)
def test_the_creator_of_a_table_acts_as_declared(catalog: Catalog) -> None:
    """For the catalog that created the table, nothing differs from the declaration."""
    acted = effective_catalog(catalog, TableRecord.from_item(proposed(EMPTY, catalog).to_item()))
    for name, declared in catalog.entities.items():
        entity = acted.entities[name]
        for part in fields(declared):
            if part.name not in {"recorded", "children", "foreign_keys"}:
                assert getattr(entity, part.name) == getattr(declared, part.name), part.name
        assert [(key.name, key.by, key.parent.name, key.is_ready) for key in entity.foreign_keys] == [
            (key.name, key.by, key.parent.name, True) for key in declared.foreign_keys
        ]
        assert [child.name for child in entity.children] == [child.name for child in declared.children]
        assert entity.written_indexes == tuple(declared.indexes.values())
        assert entity.recorded is not None
        assert not entity.recorded.not_ready
        assert not entity.recorded.has_unknown_properties
        assert entity.recorded.write_blocker is None


@given(CATALOGS, CATALOGS)
def test_servers_of_two_catalogs_maintain_the_same(one: Catalog, two: Catalog) -> None:
    """Whatever two catalogs declare, their servers write the same index entries, constraints and children."""
    record = proposed(proposed(EMPTY, one), two)
    record = record.changed(*(replace(recorded, state="building") for recorded in record.elements.values()))

    def maintained(catalog: Catalog) -> list[Any]:
        user, town = (effective_catalog(catalog, record).entities[name] for name in ("user", "town"))
        indexes = user.written_indexes
        return [
            sorted(f"{index.physical} {index.definition} {index.hash_entity} {index.space}" for index in indexes),
            sorted((unique.name, [part.stored for part in unique.parts], unique.is_ready) for unique in user.unique),
            sorted((key.name, key.parent.name, [part.stored for part in key.by]) for key in user.foreign_keys),
            [child.name for child in town.children],
            user.space,
        ]

    assert maintained(one) == maintained(two)


# --- searches --------------------------------------------------------------------------------------------------

BY_TOWN = users(
    town_id=TOWN,
    by_name=Index(hash="town_id", sort="name"),
    by_town=Index(hash="town_id", sort="user_id"),
    by_any=Union("by_name", "by_town"),
)
OF_TOWN: dict[str, Any] = {"arguments": {"town_id": "x"}}


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("announced", "is announced, and not built yet"),
        ("building", "is being built"),
        ("closing", "is being removed"),
        ("dropping", "is being removed"),
    ],
)
def test_an_index_that_is_not_ready_is_refused(state: State, text: str) -> None:
    """Searches, unions and counts by an index that is not ready are refused with element, state and command."""
    record = in_state(proposed(EMPTY, BY_TOWN), "user index town", state)
    for index, options in (("by_town", {}), ("by_any", {}), ("by_town", {"count_only": True, "select": ()})):
        problem = problem_of(BY_TOWN, record, index, **OF_TOWN, **options)
        assert isinstance(problem, NotReady)
        assert problem.extensions["element"] == "index user.town"
        assert problem.extensions["state"] == state
        assert f"User.{index} needs the index user.town, which {text}" in problem.message
        option = "--drop" if text == "is being removed" else "--apply"
        assert problem.message.endswith(f"shardql migrate MODULE:CATALOG --store URL {option}")
    assert plan(BY_TOWN, record, "by_name", **OF_TOWN).scans
    assert plan(BY_TOWN, record, "by_id").scans


def test_an_unknown_or_replaced_index_is_refused() -> None:
    """An index that the table does not know, or has with another definition, is refused too."""
    known = proposed(EMPTY, users(**PARTS["sorted"]))
    absent = problem_of(BY_TOWN, known, "by_town", arguments={"town_id": "x"})
    assert isinstance(absent, NotReady)
    assert absent.state == "absent"
    replaced = problem_of(users(by_name=Index(sort="created", name="name")), known, "by_name")
    assert isinstance(replaced, NotReady)
    assert replaced.state == "replaced"


def test_the_error_names_the_search_of_its_audience() -> None:
    """The message of a GraphQL field names the field, not the Python index."""
    naming = NamingScheme(str, str, lambda entity, index: f"{entity.name}By{index.name}")
    record = in_state(proposed(EMPTY, BY_TOWN), "user index town", "building")
    problem = problem_of(BY_TOWN, record, "by_town", arguments={"town_id": "x"}, naming=naming)
    assert problem.message.startswith("userBytown needs the index user.town")


# --- derived properties ----------------------------------------------------------------------------------------


def rebuilt(state: State) -> TableRecord:
    """The record of a table whose derived property gets its second version."""
    record = proposed(proposed(EMPTY, letters()), letters(2, first_letter))
    return in_state(record, "user derived property letter@2", state)


def test_the_previous_function_applies_until_the_new_one_is_built() -> None:
    """While the version is announced, writes and searches use the function before; tokens stay valid."""
    new, old = letters(2, first_letter), letters()
    entity = merged(new, rebuilt("announced"))
    part = entity.indexes["by_letter"].hash[0]
    assert part is entity.properties["letter"]
    assert (part.function, part.version) == (first_letter, 1)
    assert entity.derived_functions == {"letter": first_letter}
    of_old, before, after = (
        plan(catalog, record, "by_letter", arguments={"letter": "ada"})
        for catalog, record in ((old, proposed(EMPTY, old)), (new, rebuilt("announced")), (new, rebuilt("ready")))
    )
    assert before.scans[0].conditions.hash_values == ((("letter", "a"),),)
    assert before.token.index_digest == of_old.token.index_digest
    assert before.token.index_digest != after.token.index_digest


def test_an_index_of_a_version_that_is_being_built_is_refused() -> None:
    """Until the records have the new version, an index with it in its keys is not ready."""
    problem = problem_of(letters(2, first_letter), rebuilt("building"), "by_letter", arguments={"letter": "a"})
    assert isinstance(problem, NotReady)
    assert problem.element == "derived property user.letter@2"


def test_values_of_a_version_that_is_being_built_are_computed() -> None:
    """Filters ignore stored values of a derived property until all of them have its new version."""
    item = {"userId": "u1", "name": "Ada", "letter": "stored"}
    for state, value in (("building", "a"), ("ready", "stored")):
        entity = merged(letters(2, first_letter), rebuilt(cast(State, state)))
        assert property_reader(entity, item)(entity.properties["letter"]) == value


@pytest.mark.parametrize("state", ["building", "ready"])
def test_a_server_without_the_function_is_blocked(state: State) -> None:
    """A server with the version before neither writes the entity nor searches by it; other searches go on."""
    record = rebuilt(state)
    assert isinstance(problem_of(letters(), record, "by_letter", arguments={"letter": "a"}), CatalogBehind)
    recorded = merged(letters(), record).recorded
    assert recorded is not None
    assert recorded.write_blocker is not None
    assert recorded.write_blocker.element == "derived property user.letter@2"
    assert plan(letters(), record, "by_id").scans


def test_a_server_without_the_property_is_blocked_only_if_a_key_uses_it() -> None:
    """A catalog that lacks a derived property writes the entity, unless an index or constraint needs it."""
    unused = users(letter=(str | None, derived(first_letter, "name")))
    for catalog, is_blocked in ((unused, False), (letters(), True)):
        recorded = merged(users(), proposed(EMPTY, catalog)).recorded
        assert recorded is not None
        assert (recorded.write_blocker is not None) == is_blocked
        assert recorded.has_unknown_properties


# --- histories -------------------------------------------------------------------------------------------------


def history(current: str | None) -> Catalog:
    """A catalog of a history, with current records or without."""
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__annotations__": {"step_id": Id[str], "number": SubId[str], "note": str},
    }
    namespace["by_note"] = Index(sort="note", projection="KEYS_ONLY")
    options: dict[str, Any] = {} if current is None else {"current": current}
    return Catalog(entity_model("Step", namespace, **options))


def hidden(catalog: Catalog, record: TableRecord, index: str, **options: Any) -> bool:
    """Whether a search leaves current records out."""
    arguments = {"step_id": "s"} if index == "by_id" else {}
    found = plan(catalog, record, index, "step", arguments=arguments, **options)
    if found.filter is None:
        return False
    assert found.filter.matches(lambda _: "1")
    assert not found.filter.matches(lambda _: "latest")
    return True


@pytest.mark.parametrize("state", ["announced", "building", "closing", "dropping"])
def test_default_searches_leave_incomplete_current_records_out(state: State) -> None:
    """While current records are not ready, searches answer entries alone, and CURRENT is refused."""
    catalog = history("latest")
    record = in_state(proposed(EMPTY, catalog), "step current record current", state)
    for index in ("by_id", "by_note"):
        assert hidden(catalog, record, index)
        assert hidden(catalog, record, index, count_only=True, select=())
        arguments = {"step_id": "s"} if index == "by_id" else {}
        problem = problem_of(catalog, record, index, entity="step", arguments=arguments, history="CURRENT")
        assert isinstance(problem, NotReady)
        assert problem.element == "current record step.current"
    ready = proposed(EMPTY, catalog)
    assert not hidden(catalog, ready, "by_note")
    digests = {plan(catalog, one, "by_note", "step").token.search_digest for one in (record, ready)}
    assert len(digests) == 1


@pytest.mark.parametrize("state", ["announced", "building", "ready", "closing", "dropping"])
def test_current_records_of_other_catalogs_are_hidden(state: State) -> None:
    """A catalog without current records sees entries alone. It writes those records from `building` to `closing`."""
    record = in_state(proposed(EMPTY, history("latest")), "step current record current", state)
    assert hidden(history(None), record, "by_id")
    assert hidden(history(None), record, "by_note")
    assert isinstance(problem_of(history(None), record, "by_note", entity="step", history="PAST"), UnknownArgument)
    assert merged(history(None), record, "step").written_current == (
        None if state in {"announced", "dropping"} else "latest"
    )


# --- properties that servers set -------------------------------------------------------------------------------


def test_expected_versions_wait_for_the_version() -> None:
    """A version that not all servers count cannot be compared: expected_version is refused until it is ready."""
    old, new = users(), users(**PARTS["version"])
    record = proposed(proposed(EMPTY, old), new)
    command = Update(merged(new, record), ["u1"], {"name": "x"}, expected_version=1)
    with pytest.raises(NotReady) as raised:
        check_command(command)
    assert raised.value.element == "server-set user.revision.version"
    check_command(replace(command, entity=merged(new, in_state(record, "user server-set revision.version", "ready"))))


def test_roles_of_other_catalogs_apply() -> None:
    """Versions, times, expiry and immutability of other catalogs apply, also to plain properties of this one."""
    declared = users(
        revision=(Version[Int32], ...),
        changed=(Updated[Timestamp], ...),
        expires=(Ttl[Timestamp] | None, None),
        code=(Immutable[str], ""),
    )
    record = proposed(EMPTY, declared)
    entity = merged(users(), record)
    assert entity.recorded is not None
    inherited = sorted((role, part.stored) for role, part in entity.recorded.inherited)
    assert inherited == [("updated", "changed"), ("version", "revision")]
    assert entity.ttl is not None
    assert entity.ttl.stored == "expires"
    plain = merged(
        users(revision=(Int32, 0), changed=(Timestamp, 0), expires=(Timestamp | None, None), code=(str, "")), record
    )
    assert plain.version is plain.properties["revision"]
    assert plain.updated is plain.properties["changed"]
    assert plain.ttl is plain.properties["expires"]
    assert plain.properties["code"].immutable


def test_an_inherited_expiry_is_read_with_narrow_indexes() -> None:
    """An index that does not carry the expiry of another catalog fetches the records, which show it."""
    own = users(by_name=Index(sort="name", projection="KEYS_ONLY"))
    record = proposed(proposed(EMPTY, own), users(expires=(Ttl[Timestamp] | None, None)))
    select: dict[str, Any] = {"select": ("name",)}
    assert not plan(own, record, "by_name", **select).scans[0].fetches_records
    ready = in_state(record, "user server-set expires.expiry", "ready")
    assert plan(own, ready, "by_name", **select).scans[0].fetches_records


# --- shard generations -----------------------------------------------------------------------------------------

GROWN = Shards(1).then(4, since=100).then(8, since=200)


def grown(*states: State) -> TableRecord:
    """The record of a table with two more generations, in these states."""
    record = proposed(proposed(EMPTY, users()), users(GROWN))
    for number, state in enumerate(states, 1):
        record = in_state(record, f"user generation {number}", state)
    return record


@pytest.mark.parametrize(
    ("states", "pending"),
    [
        (("announced", "announced"), 2),
        (("building", "announced"), 2),
        (("ready", "announced"), 1),
        (("ready", "ready"), 0),
        (("building", "ready"), 2),
    ],
)
@pytest.mark.parametrize("catalog", [users(), users(GROWN)], ids=["older", "newer"])
def test_all_servers_place_and_read_by_the_record(catalog: Catalog, states: tuple[State, ...], pending: int) -> None:
    """Readers include all generations of the record; records are placed in those before the first that is not ready."""
    space = merged(catalog, grown(*states)).space
    assert [generation.size for generation in space.generations] == [1, 4, 8]
    assert space.pending == pending
    assert merged(catalog, grown(*states)).indexes["by_id"].space == space


def test_a_server_that_cannot_tell_creation_values_is_blocked() -> None:
    """A catalog without the creation property cannot place records once a generation is being built."""

    class User(Entity):
        user_id: Id[str]
        name: str

    expected: dict[State, bool] = {"announced": False, "building": True, "ready": True}
    for state, is_blocked in expected.items():
        recorded = merged(Catalog(User), grown(state)).recorded
        assert recorded is not None
        assert (recorded.write_blocker is not None) == is_blocked


def test_keys_hold_the_generation_that_the_table_has() -> None:
    """The key of a record names the generation in which all servers place it, whatever the catalog declares."""
    model: Any = users(GROWN).entities["user"].model
    record = model(user_id="u1", created=150, name="Ada")
    assert record.key.generation == 1
    pending = merged(users(GROWN), grown())
    assert record_key(record, pending).generation == 0
    assert placed_generation(pending, record.key.generation) is None
    older: Any = users()
    entity = merged(older, grown("ready"))
    old_record = older.entities["user"].model(user_id="u1", created=150, name="Ada")
    assert old_record.key.generation == 0
    assert record_key(old_record, entity).generation == 1
    assert placed_generation(entity, old_record.key.generation) is None
    assert placed_generation(merged(users(GROWN), grown("ready", "ready")), 1) == 1


def test_tokens_count_the_generations_that_hold_records() -> None:
    """A token made while a generation is pending is valid everywhere; a settled generation must be known."""
    catalog = users(GROWN, **PARTS["sorted"])
    record = proposed(proposed(EMPTY, users(**PARTS["sorted"])), catalog)

    def token(of: TableRecord) -> int:
        return plan(catalog, of, "by_name").token.generations

    assert token(record) == 1
    settled = in_state(record, "user generation 1", "ready")
    assert token(settled) == 2
    old = proposed(EMPTY, users(**PARTS["sorted"]))
    for of, is_known in ((record, True), (settled, False)):
        made = plan(catalog, of, "by_name").token
        sealed = SEAL.seal(pack(made), None, None)
        if is_known:
            assert plan(catalog, old, "by_name", next_token=sealed).resumed
        else:
            assert isinstance(problem_of(catalog, old, "by_name", next_token=sealed), TokenAhead)


def test_writes_learn_of_generations_that_are_being_built() -> None:
    """The first creation value of a generation that is being built is known, also that of a parent's."""
    recorded = merged(users(), grown("building")).recorded
    assert recorded is not None
    assert [(since, status.element) for since, status in recorded.new_generations] == [(100, "generation user.1")]


# --- entities of other catalogs --------------------------------------------------------------------------------


def test_parents_and_children_of_other_catalogs_are_enforced() -> None:
    """A catalog of the parent alone knows its children, and a catalog of the child alone its parent."""
    record = proposed(EMPTY, Catalog(Town, user_model(**PARTS["parent"])))
    town = merged(Catalog(Town), record, "town")
    assert [child.name for child in town.children] == ["user"]
    assert [key.parent.name for key in town.children[0].foreign_keys] == ["town"]
    user = merged(users(town_id=TOWN), record)
    assert [(key.name, key.parent.type_name) for key in user.foreign_keys] == [("ofTown", "Town")]
    assert [part.stored for part in user.foreign_keys[0].parent.ids] == ["townId"]


def test_the_shards_of_an_unknown_parent_apply() -> None:
    """An index in the shards of a parent that only other catalogs declare gets the parent's generations."""

    class Author(Entity, shards=Shards(3).then(5, since=10)):
        author_id: Id[str]
        created: Created[Timestamp]

    def posts(**indexes: Any) -> Any:
        annotations = {"post_id": Id[str], "author_id": str, "created": Created[Timestamp]}
        return entity_model("Post", {"__module__": __name__, "__annotations__": annotations, **indexes})

    record = proposed(EMPTY, Catalog(Author, posts(by_author=Index(hash="author_id", sharded="Author"))))
    (_, index) = merged(Catalog(posts()), record, "post").written_indexes
    assert index.sharded_like_parent
    assert [generation.size for generation in index.space.generations] == [3, 5]


def test_a_read_only_server_serves_entities_that_the_table_does_not_know() -> None:
    """Without an announcement, the record lacks the entity: its indexes are absent, and its shards as declared."""
    catalog = users(Shards(4), **PARTS["sorted"])
    entity = merged(catalog, EMPTY)
    assert entity.space == catalog.entities["user"].space
    status = entity.status_of("by_name")
    assert status is not None
    assert status.state == "absent"
