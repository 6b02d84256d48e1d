"""What the claims of a token must say, at a time that the test holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.token_claims import ClaimRules

NOW = 1_800_000_000
RULES = ClaimRules(issuer="https://issuer.example", audiences=frozenset({"shop", "till"}), skew=60)
TENANTS = ClaimRules(tenant_claim="org")
COGNITO = ClaimRules(audiences=frozenset({"app"}), groups_claim="cognito:groups", cognito=True)


def claims(**changed: Any) -> dict[str, Any]:
    """Claims that are right now, but for what is changed; None leaves one out."""
    good = {"iss": "https://issuer.example", "aud": "shop", "sub": "alice", "exp": NOW + 600}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def reason(rules: ClaimRules, said: dict[str, Any]) -> str:
    """Why claims are refused."""
    with pytest.raises(Unauthenticated) as refused:
        rules.verify(said, NOW)
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
def test_claims_that_hold(changed: dict[str, Any]) -> None:
    """Claims hold between nbf and exp, with the skew on both sides, for one of the audiences, from the issuer."""
    assert RULES.verify(claims(**changed), NOW) == Identity("alice")


@pytest.mark.parametrize(
    ("changed", "said"),
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
def test_claims_that_do_not_hold(changed: dict[str, Any], said: str) -> None:
    """Whatever does not hold is told by its kind, and none of what the token says is shown."""
    told = reason(RULES, claims(**changed))
    assert said in told
    assert "alice" not in told
    assert "issuer.example" not in told


@pytest.mark.parametrize(
    ("said", "groups"),
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
def test_groups(said: object, groups: set[str]) -> None:
    """Groups are a list, or a text with spaces or commas between them."""
    assert RULES.verify(claims(groups=said), NOW).groups == groups


@pytest.mark.parametrize("said", [7, True, {"Admin": True}, ["Admin", None], [["Admin"]]])
def test_groups_of_a_wrong_type(said: object) -> None:
    """Groups of another type are refused, rather than taken for none."""
    assert "claim groups of the token is neither" in reason(RULES, claims(groups=said))


def test_the_tenant_is_a_claim() -> None:
    """The tenant is what the claim says that the settings name, and without tenants no claim is one."""
    assert TENANTS.verify(claims(org="acme", tenant="other"), NOW).tenant == "acme"
    assert RULES.verify(claims(org="acme", tenant="acme"), NOW).tenant is None


@pytest.mark.parametrize("said", [None, "", 7, ["acme"], {"id": "acme"}, True, "a\nb", "a" * 256])
def test_tenants_that_are_none(said: object) -> None:
    """Where there are tenants, a token without one, or with one that is no text, is refused."""
    assert "claim org" in reason(TENANTS, claims(org=said))


@pytest.mark.parametrize(
    "said",
    [
        {"token_use": "access", "client_id": "app", "cognito:groups": ["Admin"]},
        {"token_use": "id", "aud": "app", "cognito:groups": ["Admin"]},
    ],
)
def test_tokens_of_cognito(said: dict[str, Any]) -> None:
    """Access tokens of Cognito name the app client as client_id, id tokens as aud."""
    assert COGNITO.verify(claims(**{"aud": None, **said}), NOW) == Identity("alice", frozenset({"Admin"}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token_use": "access", "aud": "app"}, "another audience"),
        ({"token_use": "access", "client_id": "other", "aud": "app"}, "another audience"),
        ({"token_use": "id", "client_id": "app", "aud": "other"}, "another audience"),
        ({"token_use": "refresh", "aud": "app"}, "token_use"),
        ({"aud": "app", "client_id": "app"}, "token_use"),
        ({"token_use": ["id"], "aud": "app"}, "token_use"),
    ],
)
def test_tokens_of_cognito_for_others(changed: dict[str, Any], said: str) -> None:
    """A token of Cognito for another app client, or of no known use, is refused."""
    assert said in reason(COGNITO, claims(**changed))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("iss", "aud", "sub", "exp", "nbf", "iat", "groups", "org", "token_use", "client_id")


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.sampled_from([RULES, TENANTS, COGNITO]))
def test_any_claims(said: dict[str, Any], rules: ClaimRules) -> None:
    """Whatever claims say, they are refused or they are those of somebody; nothing else happens."""
    try:
        found = rules.verify(said, NOW)
    except Unauthenticated:
        return
    assert found.subject == said["sub"]
    assert said["exp"] > NOW - rules.skew
    assert (found.tenant is None) == (rules.tenant_claim is None)
