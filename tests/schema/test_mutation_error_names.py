"""Names and data in errors of writes: names are translated for the audience, data is never changed."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from graphql_api import (
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
    Unique,
    Version,
    canonical,
    counter,
    derived,
)
from graphql_api.errors import InvalidRecord, ShardQLError
from graphql_api.examples.users import catalog as users
from graphql_api.storage.values import Put
from graphql_api.writes.commands import Create, Replace
from graphql_api.writes.item_keys import possible_keys
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.graphql_text import input_type_of


class Home_town(Entity, shards=Shards(1).then(4, since=2_000_000_000)):  # noqa: N801 - is called like a property
    """A town."""

    home_town: Id[str]
    created_at: Created[Timestamp]
    expected_version: Version[Int32]
    """a version property with the name of an argument"""


class Postal(BaseModel):
    """A postal address."""

    zip_code: str
    street_name: str = ""


class Person(Entity):
    """Has properties of every kind."""

    person_id: Id[str]
    first_name: str
    first_name_canonical: Unique[str] = derived(canonical, "first_name")
    home_town: Immutable[str | None] = None
    house_no: Int32 = counter("home_town")
    nick_name: Literal["first_name", "home_town"] = "first_name"
    idempotency_key: str | None = None
    long_text: str | None = None
    postal_address: Postal | None = None
    by_person: dict[str, Postal] = {}  # noqa: RUF012 - pydantic copies it
    version: Version[Int32]

    of_town = ForeignKey("Home_town", by="home_town")
    by_long_text = Index(sort="long_text", raw=True, sharded=False)

    @field_validator("idempotency_key")
    @classmethod
    def _check(cls, value: str | None) -> str | None:
        if value == "bad":
            raise ValueError("first_name of Person.first_name is {first_name} and by_long_text")
        return value


CATALOG = Catalog(Home_town, Person)
LOOKALIKES = [
    "x first_name",
    "first_name",
    "Person.first_name",
    "'first_name'",
    '"first_name',
    "by_long_text",
    "Person.by_long_text",
    "expected_version: idempotency_key",
    "Home_town home_town",
    "{property} {0} {record!r} {",
    "%s %(first_name)s",
]


@pytest.fixture
async def people_client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A town with a person."""
    async with open_client(CATALOG, tmp_path) as client:
        await client.db.create(Home_town, home_town="first_name", created_at=5)
        await client.db.create(Person, person_id="first_name", first_name="x first_name", home_town="first_name")
        yield client


async def test_id_that_contains_a_property_name(tmp_path: Path) -> None:
    """An id that contains the name of a property is reported unchanged."""
    create = """mutation { createUser(input: {
      userId: "x first_name", beneficiaryId: "b", updated: 1, firstName: "A", lastName: "B" }) { __typename } }"""
    async with open_client(users, tmp_path) as client:
        await client.data(create)
        error = await client.error(create)
        assert error["message"].startswith("User x first_name already exists")
        assert error["extensions"] == {"code": "ALREADY_EXISTS", "argument": "userId"}


@pytest.mark.parametrize("data", LOOKALIKES)
async def test_data_that_looks_like_names(people_client: GraphQLClient, data: str) -> None:
    """Ids, values and map keys are reported unchanged, in single writes and batches, quoted and unquoted."""
    create = "mutation ($input: PersonInput!) { createPerson(input: $input) { __typename } }"
    rows = """mutation ($input: PersonInput!) {
      createPersons(inputs: [$input]) { results { error { message argument fields { field message } } } } }"""
    update = "mutation ($id: ID!) { updatePerson(input: {id: $id}) { __typename } }"
    key = 'mutation ($key: String!) { deletePerson(id: "z", idempotencyKey: $key) { __typename } }'

    if data != "first_name":
        missing = await people_client.error(update, {"id": data})
        assert missing["message"].startswith(f"Person {data} does not exist: ")
        await people_client.data(create, {"input": {"personId": data, "firstName": "unlike any other"}})
    same = {"input": {"personId": data, "firstName": "one more"}}
    again = await people_client.error(create, same)
    assert again["message"] == f"Person {data} already exists: update it, put it, or create it under another id."
    assert again["extensions"] == {"code": "ALREADY_EXISTS", "argument": "personId"}
    (row,) = (await people_client.data(rows, same))["createPersons"]["results"]
    assert row["error"] == {"message": again["message"], "argument": "personId", "fields": []}

    orphan = await people_client.error(create, {"input": {"personId": "o", "firstName": "o", "homeTown": f"{data}!"}})
    assert orphan["message"].startswith(f"Person.homeTown references Home_town {data}!, which does not exist.")
    assert orphan["extensions"] == {"code": "FOREIGN_KEY", "argument": "homeTown"}

    wrong = {"personId": "o", "firstName": "o", "byPerson": {data: {"street_name": "s"}}}
    inside = await people_client.error(create, {"input": wrong})
    assert inside["message"] == f"Person.byPerson.{data}.zip_code: Field required."
    assert inside["extensions"]["argument"] == f"byPerson.{data}.zip_code"
    assert inside["extensions"]["fields"] == [{"field": f"byPerson.{data}.zip_code", "message": "Field required"}]

    refused = await people_client.error(key, {"key": f"{data} "})
    assert refused["message"].startswith(f"{f'{data} '!r} is not a valid idempotency key")
    assert refused["extensions"] == {"code": "INVALID_VALUE", "argument": "idempotencyKey"}


PERSON = {"personId": "p", "firstName": "p"}
NAMES: list[tuple[str, dict[str, Any], str, str | None]] = [
    (
        "createPerson",
        {**PERSON, "firstName": "X First_Name"},
        "Person.{first_name_canonical} (from {first_name}): another Person already has 'xfirst_name'. Choose another",
        "{first_name}",
    ),
    (
        "createPerson",
        {**PERSON, "idempotencyKey_": "bad"},
        "Person.{idempotency_key}: Value error, first_name of Person.first_name is {{first_name}} and by_long_text.",
        "{idempotency_key}",
    ),
    (
        "createPerson",
        {**PERSON, "nickName": "by_long_text"},
        "Person.{nick_name}: Input should be 'first_name' or 'home_town'.",
        "{nick_name}",
    ),
    (
        "createPerson",
        {**PERSON, "longText": "y" * 1_100},
        "Person.{long_text} has 1,100 bytes, and {by_long_text} stores it as a plain key, where at most 1,020 fit: sh",
        "{long_text}",
    ),
    (
        "putPerson",
        {"personId": "first_name", "firstName": "q"},
        "Person.{home_town} never changes, and Person first_name has another value. Leave it unchanged.",
        "{home_town}",
    ),
    (
        "putHome_town",
        {"homeTown": "first_name", "createdAt": 6},
        "Home_town first_name was created at 5, which determines its shard and cannot become 6: leave {created_at} u",
        "{created_at}",
    ),
    (
        "putPerson",
        {"personId": "first_name", "firstName": "q", "expectedVersion": 7},
        "Person first_name has version 1, but version 7 was expected: read it again",
        "{expected_version}",
    ),
]
GRAPHQL = {
    "first_name": "firstName",
    "first_name_canonical": "firstNameCanonical",
    "home_town": "homeTown",
    "nick_name": "nickName",
    "idempotency_key": "idempotencyKey_",
    "long_text": "longText",
    "by_long_text": "personByLongText",
    "created_at": "createdAt",
    "expected_version": "expectedVersion",
}
PYTHON = {name: name for name in GRAPHQL} | {"by_long_text": "Person.by_long_text"}


def with_names(template: str | None, names: Mapping[str, str]) -> str | None:
    """Fills a message template with the names of an audience."""
    return None if template is None else template.format_map(names)


@pytest.mark.parametrize(("mutation", "given", "message", "argument"), NAMES)
async def test_names_of_both_audiences(
    people_client: GraphQLClient, mutation: str, given: dict[str, Any], message: str, argument: str | None
) -> None:
    """The same error has GraphQL names in GraphQL and Python names in Python."""
    query = f"mutation ($input: {input_type_of(mutation)}!) {{ {mutation}(input: $input) {{ __typename }} }}"
    error = await people_client.error(query, {"input": given})
    assert error["message"].startswith(str(with_names(message, GRAPHQL)))
    assert error["extensions"].get("argument") == with_names(argument, GRAPHQL)

    python_names = {graphql: python for python, graphql in GRAPHQL.items()} | {"personId": "person_id"}
    version = given.get("expectedVersion")
    values: dict[str, Any] = {python_names[name]: value for name, value in given.items() if name != "expectedVersion"}
    spec = CATALOG.entity(Home_town if mutation == "putHome_town" else Person)
    command = Create(spec, values) if mutation == "createPerson" else Replace(spec, values, version)
    with pytest.raises(ShardQLError) as caught:
        await people_client.db.apply(command)
    assert caught.value.message.startswith(str(with_names(message, PYTHON)))
    assert str(caught.value) == caught.value.message
    assert caught.value.argument == with_names(argument, PYTHON)


async def test_invalid_stored_record(people_client: GraphQLClient) -> None:
    """The path inside an invalid stored record has the names of the audience; the key of the record is unchanged."""
    spec = CATALOG.entity(Person)
    (key,) = possible_keys(spec, ["by_long_text first_name"], None)
    item = {"hashKey": key.hash, "rangeKey": key.range, "personId": "by_long_text first_name", "firstName": "q"}
    broken = {**item, "houseNo": 1, "version": 1, "postalAddress": {"streetName": "s"}}
    assert [*await people_client.store.write([Put(broken)])] == [None]
    error = await people_client.error(
        'mutation { updatePerson(input: {id: "by_long_text first_name", firstName: "r"}) { __typename } }'
    )
    assert f"{key.hash} / {key.range}: postalAddress.zipCode: Field required" in error["message"]
    assert error["extensions"]["argument"] == "postalAddress.zipCode"
    with pytest.raises(InvalidRecord) as caught:
        await people_client.db.update(Person, "by_long_text first_name", first_name="r")
    assert f"{key.hash} / {key.range}: postal_address.zip_code: Field required" in caught.value.message
    assert caught.value.argument == "postal_address.zip_code"
