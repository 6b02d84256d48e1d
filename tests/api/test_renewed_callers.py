"""Writes that are sent again by the same person, whose token or groups have changed since, on a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest

from graphql_api import Catalog, Entity, Id, Int32, allow, asgi, counter, generated, group, signed_in
from tests.api.running import PATIENCE, running
from tests.issuer import AUDIENCE, NAME, Issuer, private_key

CREATE = 'mutation { createTicket(input: {text: "-"}, idempotencyKey: "k") { ticket { ticketId num FIELDS } } }'
PLAIN = CREATE.replace(" FIELDS", "")


class Ticket(Entity, write=[group("Writer"), group("Admin")]):
    """What somebody asks for, numbered as it comes."""

    ticket_id: Id[str] = generated()
    num: Int32 = counter()
    text: str
    price: Annotated[str, allow(group("Payroll"))] = "7"


class Note(Entity, allow=signed_in):
    """What anybody who is known may write."""

    note_id: Id[str] = generated()


CATALOG = Catalog(Ticket, Note)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """Whose tokens are taken."""
    return Issuer({"one": ("ES256", private_key("ES256"))})


@pytest.fixture
def client(tmp_path: Path, issuer: Issuer) -> Iterator[httpx.Client]:
    """A client of a server with a store of its own."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    settings: dict[str, Any] = {
        "jwks": str(tmp_path / "jwks.json"),
        "jwt_issuer": NAME,
        "jwt_audiences": (AUDIENCE,),
        "tenant_claim": "tenant",
    }
    app = asgi(CATALOG, f"sqlite:///{tmp_path}/tickets.db", **settings)
    with running(app) as address, httpx.Client(base_url=address, timeout=PATIENCE) as found:
        yield found


def ask(client: httpx.Client, token: str, query: str) -> Any:
    """The body of an answer."""
    return client.post("/graphql", json={"query": query}, headers={"authorization": f"Bearer {token}"}).json()


def numbers(client: httpx.Client, token: str) -> list[int]:
    """The numbers of all tickets of a tenant."""
    found = ask(client, token, "{ ticketById { items { num } } }")["data"]["ticketById"]["items"]
    return sorted(item["num"] for item in found)


def test_other_groups(client: httpx.Client, issuer: Issuer) -> None:
    """A request that comes again with a token of other groups, or in another order, is carried out once."""
    groups = (["Writer", "Staff"], ["Staff", "Writer"], ["Admin"], ["Writer", "Payroll"])
    tokens = [issuer.token(tenant="acme", groups=each) for each in groups]
    first, *others = [ask(client, token, PLAIN) for token in tokens]
    assert first["data"]["createTicket"]["ticket"]["num"] == 1
    assert others == [first] * 3
    assert numbers(client, tokens[0]) == [1]


def test_rights_that_are_gone(client: httpx.Client, issuer: Issuer) -> None:
    """Whoever may no longer write, or not see what is asked for, is not told the answer of the first time."""
    ask(client, issuer.token(tenant="acme", groups=["Writer"]), PLAIN)
    payroll, writer, reader = (
        issuer.token(tenant="acme", groups=groups) for groups in (["Writer", "Payroll"], ["Writer"], ["Staff"])
    )
    shown = ask(client, payroll, CREATE.replace("FIELDS", "price"))
    assert shown["data"]["createTicket"]["ticket"]["price"] == "7"
    for token, query in ((writer, CREATE.replace("FIELDS", "price")), (reader, PLAIN)):
        answer = ask(client, token, query)
        assert answer["data"]["createTicket"] is None
        assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]
    assert numbers(client, payroll) == [1]


def test_keys_of_others(client: httpx.Client, issuer: Issuer) -> None:
    """Somebody else, and the same person of another tenant, have keys of their own."""
    create = 'mutation { createNote(input: {}, idempotencyKey: "k") { note { noteId } } }'
    people = [{"sub": "alice"}, {"sub": "bob"}, {"sub": '["alice",["Staff"]]'}, {"sub": "alice", "tenant": "other"}]
    tokens = [issuer.token(**{"tenant": "acme", **person}) for person in people]
    ids = [ask(client, token, create)["data"]["createNote"]["note"]["noteId"] for token in (*tokens, *tokens)]
    assert len(set(ids)) == len(people)
    assert ids[: len(people)] == ids[len(people) :]
