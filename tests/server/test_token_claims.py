"""Verification of token claims at a fixed time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.bearer_tokens import ClaimRules
from graphql_api.server.auth.principals import Identity

NOW = 1_800_000_000
RULES = ClaimRules(issuer="https://issuer.example", audiences=frozenset({"shop", "till"}), skew=60)
TENANTS = ClaimRules(tenant_claim="org")
COGNITO = ClaimRules(audiences=frozenset({"app"}), groups_claim="cognito:groups", cognito=True)


def claims(**changed: Any) -> dict[str, Any]:
    """Return valid claims with changes. None removes a claim."""
    good = {"iss": "https://issuer.example", "aud": "shop", "sub": "alice", "exp": NOW + 600}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def reason(rules: ClaimRules, value: dict[str, Any]) -> str:
    """Return why claims are refused."""
    with pytest.raises(Unauthenticated) as refused:
        rules.verify(value, NOW)
    assert "retryable" not in refused.value.extensions
    return refused.value.message


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"aud": ["other", "till"]},
        {"exp": NOW - 59},
        {"exp": NOW + 0.5},
        {"nbf": NOW + 60},
        {"iat": NOW + 60},
        {"nbf": 0, "iat": 0},
        {"exp": 10**300},
    ],
)
def test_valid_claims(changed: dict[str, Any]) -> None:
    """Claims are valid between nbf and exp, with the skew on both sides, for any accepted audience."""
    assert RULES.verify(claims(**changed), NOW) == Identity("alice")


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ({"exp": NOW - 60}, "has expired"),
        ({"exp": 0}, "has expired"),
        ({"exp": -(10**300)}, "has expired"),
        ({"exp": None}, "no claim exp"),
        ({"exp": str(NOW + 600)}, "exp of the token is not a number"),
        ({"exp": True}, "exp of the token is not a number"),
        ({"exp": [NOW]}, "exp of the token is not a number"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"nbf": "now"}, "nbf of the token is not a number"),
        ({"iat": NOW + 61}, "issued in the future"),
        ({"iat": {}}, "iat of the token is not a number"),
        ({"iss": None}, "another issuer"),
        ({"iss": "https://issuer.example/"}, "another issuer"),
        ({"iss": ["https://issuer.example"]}, "another issuer"),
        ({"aud": None}, "another audience, or none"),
        ({"aud": "Shop"}, "another audience, or none"),
        ({"aud": []}, "another audience, or none"),
        ({"aud": ["sho", "p"]}, "another audience, or none"),
        ({"aud": {"shop": 1}}, "neither a text nor a list"),
        ({"aud": ["shop", 1]}, "neither a text nor a list"),
        ({"sub": None}, "no claim sub"),
        ({"sub": ""}, "claim sub of the token is not a text"),
        ({"sub": 7}, "claim sub of the token is not a text"),
        ({"sub": "a\x00b"}, "claim sub of the token is not a text"),
        ({"sub": "a" * 256}, "claim sub of the token is not a text"),
    ],
)
def test_invalid_claims(changed: dict[str, Any], value: str) -> None:
    """An invalid claim is refused with a reason that contains none of the claimed values."""
    message = reason(RULES, claims(**changed))
    assert value in message
    assert "alice" not in message
    assert "issuer.example" not in message


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (None, set()),
        ([], set()),
        ("", set()),
        (["Admin", "Site Staff"], {"Admin", "Site Staff"}),
        ("Admin, Staff", {"Admin", "Staff"}),
        ("Admin Staff\tGuest", {"Admin", "Staff", "Guest"}),
        (",Admin,,", {"Admin"}),
    ],
)
def test_groups(value: object, groups: set[str]) -> None:
    """Groups are a list, or a text separated by spaces or commas."""
    assert RULES.verify(claims(groups=value), NOW).groups == groups


@pytest.mark.parametrize("value", [7, True, {"Admin": True}, ["Admin", None], [["Admin"]]])
def test_groups_of_a_wrong_type(value: object) -> None:
    """Groups of another type are refused, not ignored."""
    assert "claim groups of the token is neither" in reason(RULES, claims(groups=value))


def test_tenant_claim() -> None:
    """The tenant is the configured claim. Without a tenant setting, no claim is used."""
    assert TENANTS.verify(claims(org="acme", tenant="other"), NOW).tenant == "acme"
    assert RULES.verify(claims(org="acme", tenant="acme"), NOW).tenant is None


@pytest.mark.parametrize("value", [None, "", 7, ["acme"], {"id": "acme"}, True, "a\nb", "a" * 256])
def test_invalid_tenants(value: object) -> None:
    """If tenants are configured, a token without a valid tenant is refused."""
    assert "claim org" in reason(TENANTS, claims(org=value))


@pytest.mark.parametrize(
    "value",
    [
        {"token_use": "access", "client_id": "app", "cognito:groups": ["Admin"]},
        {"token_use": "id", "aud": "app", "cognito:groups": ["Admin"]},
    ],
)
def test_cognito_tokens(value: dict[str, Any]) -> None:
    """Access tokens of Cognito have the app client in client_id, id tokens in aud."""
    assert COGNITO.verify(claims(**{"aud": None, **value}), NOW) == Identity("alice", frozenset({"Admin"}))


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ({"token_use": "access", "aud": "app"}, "another audience"),
        ({"token_use": "access", "client_id": "other", "aud": "app"}, "another audience"),
        ({"token_use": "id", "client_id": "app", "aud": "other"}, "another audience"),
        ({"token_use": "refresh", "aud": "app"}, "token_use"),
        ({"aud": "app", "client_id": "app"}, "token_use"),
        ({"token_use": ["id"], "aud": "app"}, "token_use"),
    ],
)
def test_invalid_cognito_tokens(changed: dict[str, Any], value: str) -> None:
    """A Cognito token of another app client, or with an unknown use, is refused."""
    assert value in reason(COGNITO, claims(**changed))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("iss", "aud", "sub", "exp", "nbf", "iat", "groups", "org", "token_use", "client_id")


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.sampled_from([RULES, TENANTS, COGNITO]))
def test_random_claims(value: dict[str, Any], rules: ClaimRules) -> None:
    """Any claims are either refused or authenticate their subject."""
    try:
        found = rules.verify(value, NOW)
    except Unauthenticated:
        return
    assert found.subject == value["sub"]
    assert value["exp"] > NOW - rules.skew
    assert (found.tenant is None) == (rules.tenant_claim is None)
