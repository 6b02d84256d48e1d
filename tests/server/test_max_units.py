"""The header `x-max-units` and the setting `SHARDQL_MAX_UNITS`."""

from pathlib import Path

import pytest

from graphql_api.server.settings import read_settings
from tests.server.observed_server import observed_server

QUERY = '{ userByFirstName(prefix: "j", limit: 2) { items { userId } } }'


@pytest.mark.parametrize(
    ("setting", "header", "limit"),
    [(None, None, None), (None, "20", 20), (20, None, 20), (20, "10", 10), (20, "1e6", 20), (None, "1e6", None)],
)
def test_the_header_only_lowers_the_ceiling(
    tmp_path: Path, setting: float | None, header: str | None, limit: float | None
) -> None:
    """A request has the lower one of both ceilings. The users catalog declares no sizes, so a low one refuses it."""
    settings = read_settings(graphiql=False, ready_seconds=0.3, max_units=setting)
    with observed_server(tmp_path, settings=settings) as server:
        headers = {} if header is None else {"x-max-units": header}
        body = server.client.post("/graphql", json={"query": QUERY}, headers=headers).json()
        if limit is None:
            assert "errors" not in body
        else:
            (error,) = body["errors"]
            assert (error["extensions"]["code"], error["extensions"]["limit"]) == ("QUERY_TOO_COSTLY", limit)
            assert error["extensions"]["estimate"]["least"] == 8.5


@pytest.mark.parametrize("header", ["", "0", "-1", "nan", "inf", "many", "1 2"])
def test_other_values_are_refused(tmp_path: Path, header: str) -> None:
    """Whatever is no number above 0 is refused, also if the server has a ceiling."""
    with observed_server(tmp_path) as server:
        reply = server.client.post(
            "/graphql",
            json={"query": QUERY},
            headers={"x-max-units": header, "accept": "application/graphql-response+json"},
        )
        assert reply.status_code == 400
        (error,) = reply.json()["errors"]
        assert error["extensions"]["code"] == "INVALID_REQUEST"
        assert error["message"].startswith("x-max-units is ")
