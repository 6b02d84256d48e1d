"""Idempotent writes repeated by the same subject with another token or other groups, on a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest

from graphql_api import Catalog, Entity, Id, Int32, allow, asgi, counter, generated, group, signed_in
from tests.support.loopback import TIMEOUT, serve_app
from tests.support.token_issuer import AUDIENCE, NAME, Issuer, private_key

CREATE = 'mutation { createTicket(input: {text: "-"}, idempotencyKey: "k") { ticket { ticketId num FIELDS } } }'
PLAIN = CREATE.replace(" FIELDS", "")


class Ticket(Entity, write=[group("Writer"), group("Admin")]):
    """A numbered ticket."""

    ticket_id: Id[str] = generated()
    num: Int32 = counter()
    text: str
    price: Annotated[str, allow(group("Payroll"))] = "7"


class Note(Entity, allow=signed_in):
    """Writable by every authenticated principal."""

    note_id: Id[str] = generated()


CATALOG = Catalog(Ticket, Note)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """The issuer of accepted tokens."""
    return Issuer({"one": ("ES256", private_key("ES256"))})


@pytest.fixture
def client(tmp_path: Path, issuer: Issuer) -> Iterator[httpx.Client]:
    """A client of a server with an empty store."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    settings: dict[str, Any] = {
        "jwks": str(tmp_path / "jwks.json"),
        "jwt_issuer": NAME,
        "jwt_audiences": (AUDIENCE,),
        "tenant_claim": "tenant",
    }
    app = asgi(CATALOG, f"sqlite:///{tmp_path}/tickets.db", **settings)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as found:
        yield found


def execute(client: httpx.Client, token: str, query: str) -> Any:
    """Return the body of a response."""
    return client.post("/graphql", json={"query": query}, headers={"authorization": f"Bearer {token}"}).json()


def numbers(client: httpx.Client, token: str) -> list[int]:
    """Return the numbers of all tickets of a tenant."""
    found = execute(client, token, "{ ticketById { items { num } } }")["data"]["ticketById"]["items"]
    return sorted(item["num"] for item in found)


def test_other_groups(client: httpx.Client, issuer: Issuer) -> None:
    """A repeated request with other groups, or in another order, is executed once."""
    groups = (["Writer", "Staff"], ["Staff", "Writer"], ["Admin"], ["Writer", "Payroll"])
    tokens = [issuer.token(tenant="acme", groups=each) for each in groups]
    first, *others = [execute(client, token, PLAIN) for token in tokens]
    assert first["data"]["createTicket"]["ticket"]["num"] == 1
    assert others == [first] * 3
    assert numbers(client, tokens[0]) == [1]


def test_revoked_access(client: httpx.Client, issuer: Issuer) -> None:
    """A caller that lost write access, or cannot read the selection, does not get the stored response."""
    execute(client, issuer.token(tenant="acme", groups=["Writer"]), PLAIN)
    payroll, writer, reader = (
        issuer.token(tenant="acme", groups=groups) for groups in (["Writer", "Payroll"], ["Writer"], ["Staff"])
    )
    shown = execute(client, payroll, CREATE.replace("FIELDS", "price"))
    assert shown["data"]["createTicket"]["ticket"]["price"] == "7"
    for token, query in ((writer, CREATE.replace("FIELDS", "price")), (reader, PLAIN)):
        answer = execute(client, token, query)
        assert answer["data"]["createTicket"] is None
        assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]
    assert numbers(client, payroll) == [1]


def test_keys_are_bound_to_subject_and_tenant(client: httpx.Client, issuer: Issuer) -> None:
    """Other subjects, and the same subject of another tenant, have separate idempotency keys."""
    create = 'mutation { createNote(input: {}, idempotencyKey: "k") { note { noteId } } }'
    identities = [{"sub": "alice"}, {"sub": "bob"}, {"sub": '["alice",["Staff"]]'}, {"sub": "alice", "tenant": "other"}]
    tokens = [issuer.token(**{"tenant": "acme", **identity}) for identity in identities]
    ids = [execute(client, token, create)["data"]["createNote"]["note"]["noteId"] for token in (*tokens, *tokens)]
    assert len(set(ids)) == len(identities)
    assert ids[: len(identities)] == ids[len(identities) :]
