"""What a schema says of its mutations: a sentence for everything, with what is meant where it is left out."""

from decimal import Decimal
from enum import Enum
from typing import Any

from graphql import GraphQLInputObjectType, GraphQLObjectType, get_named_type
from pydantic import Field

from graphql_api import Catalog, Created, Entity, Graph, Id, Int32, SubId, Timestamp, Version, generated
from graphql_api.examples.issues import catalog as issues
from graphql_api.examples.orders import catalog as orders
from graphql_api.examples.users import catalog as users


class Mood(Enum):
    """How somebody is."""

    GOOD = "good"
    BAD = "bad"


class Entry(Entity):
    """With a default of every kind."""

    entry_id: Id[str] = generated()
    line: SubId[Int32] = 1
    created: Created[Timestamp]
    version: Version[Int32]
    mood: Mood = Mood.BAD
    words: str = 'said "so"'
    share: float = 0.5
    price: Decimal = "0"  # type: ignore[assignment]
    done: bool = False
    maybe: str | None = None
    tags: list[str] = Field(default_factory=list)
    needed: str


def fields(name: str, catalog: Catalog) -> dict[str, str]:
    """What is said of each field of a type."""
    kind: Any = Graph(catalog).schema._schema.type_map[name]
    return {name: field.description for name, field in kind.fields.items()}


def test_what_may_be_left_out() -> None:
    """An input says what a property is that is left out, but where that is null, empty, or not as the type has it."""
    assert fields("CreateEntryInput", Catalog(Entry)) == {
        "entryId": "The entryId. Left out, the server makes one.",
        "line": "The line. Left out, it is `1`.",
        "created": "The created. Left out, it is the moment at which the record is created.",
        "mood": "The mood. Left out, it is `BAD`.",
        "words": 'The words. Left out, it is `"said \\"so\\""`.',
        "share": "The share. Left out, it is `0.5`.",
        "price": "The price.",
        "done": "The done. Left out, it is `false`.",
        "maybe": "The maybe.",
        "tags": "The tags.",
        "needed": "The needed.",
    }


def test_what_is_needed_has_no_default() -> None:
    """A put needs the whole id, and an update changes nothing that it does not name: there is no default there."""
    put, update = fields("PutEntryInput", Catalog(Entry)), fields("UpdateEntryInput", Catalog(Entry))
    assert put["entryId"] == "The entryId."
    assert put["line"] == "The line."
    assert put["mood"] == "The mood. Left out, it is `BAD`."
    assert not any("Left out" in words for words in update.values())
    assert update["line"] == "The line. Not needed where `id` is that of an entry, which says it."


def test_everything_has_its_sentence() -> None:
    """Every mutation, everything that it takes and everything of its answer is described in whole sentences."""
    for catalog in (users, orders, issues, Catalog(Entry)):
        schema = Graph(catalog).schema._schema
        assert schema.mutation_type is not None
        for name, field in schema.mutation_type.fields.items():
            said = {name: field.description}
            kinds = {get_named_type(one.type) for one in (field, *field.args.values())}
            said |= {f"{name}({argument})": one.description for argument, one in field.args.items()}
            for kind in kinds:
                if isinstance(kind, GraphQLInputObjectType | GraphQLObjectType):
                    said[kind.name] = kind.description
                    said |= {f"{kind.name}.{inner}": one.description for inner, one in kind.fields.items()}
            assert [place for place, words in said.items() if not words or not words.endswith(".")] == []


def test_articles() -> None:
    """Entities whose names begin with a vowel have the article that goes with them, and users have the other one."""
    for catalog, words in ((users, "Creates a User."), (users, "Creates an Email."), (issues, "Removes an Issue.")):
        mutation = Graph(catalog).schema._schema.mutation_type
        assert mutation is not None
        assert any((field.description or "").startswith(words) for field in mutation.fields.values())
