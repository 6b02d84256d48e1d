"""What `shardql doctor` says of the credentials that a server takes."""

import stat
import time

from graphql_api.cli.doctor_report import Examination
from graphql_api.server import Settings, variable
from graphql_api.server.auth import (
    HMAC,
    KeySet,
    KeysUnavailable,
    algorithms_of,
    credential_mistakes,
    credentials_in_words,
    issuer_of,
    load_from,
    read_api_keys_file,
    read_keys_at_start,
)

ABOUT = "callers"


async def examine_credentials(found: Examination, settings: Settings) -> None:
    """Looks at who can ask, at the keys of the issuer, and at the file of API keys."""
    if any(credential_mistakes(settings)):
        return  # the settings are told of them
    issuer = issuer_of(settings)
    found.fine(ABOUT, f"Whom the server knows: {credentials_in_words(settings)}.")
    if issuer is not None:
        _claims(found, settings, issuer.name)
        await _keys(found, settings, issuer.jwks)
    _api_keys(found, settings)
    if settings.production and issuer is None and settings.api_keys_file is None:
        _nobody(found, settings)


def _claims(found: Examination, settings: Settings, issuer: str | None) -> None:
    if issuer is None:
        found.finding(
            ABOUT, "Tokens of any issuer are taken whose key is in the set.", f"Set {variable('jwt_issuer')}."
        )
    if not settings.jwt_audiences:
        found.finding(
            ABOUT,
            "Tokens that the issuer made for any other service are taken here too.",
            f"Set {variable('jwt_audiences')} to what its tokens for this service name.",
        )


async def _keys(found: Examination, settings: Settings, jwks: str) -> None:
    with found.about(ABOUT):
        keys = read_keys_at_start(settings)
        if keys is None:
            keys = await _fetched(found, settings, jwks)
        if keys is not None:
            _usable(found, settings, jwks, keys)


async def _fetched(found: Examination, settings: Settings, jwks: str) -> KeySet | None:
    begun = time.monotonic()
    try:
        keys = await load_from(jwks, algorithms_of(settings))()
    except KeysUnavailable as problem:
        found.finding(ABOUT, f"{jwks} gives no keys: {problem}", "Until it does, no bearer token is accepted.")
        return None
    found.fine(ABOUT, f"{jwks} answers in {(time.monotonic() - begun) * 1000:,.0f} ms.")
    return keys


def _usable(found: Examination, settings: Settings, jwks: str, keys: KeySet) -> None:
    served = sorted({name for key in keys.keys for name in key.algorithms})
    others = f" Of other kinds or too weak: {keys.skipped}." if keys.skipped else ""
    if keys.keys:
        found.fine(ABOUT, f"Keys of {jwks} that can be used: {len(keys.keys)}, for {', '.join(served)}.{others}")
    else:
        found.finding(
            ABOUT, f"No key of {jwks} can be used.{others}", "Until there is one, no bearer token is accepted."
        )
    unserved = sorted(set(settings.jwt_algorithms) - set(served))
    if keys.keys and unserved:
        found.note(ABOUT, f"No key serves {', '.join(unserved)}.", f"Leave it out of {variable('jwt_algorithms')}.")
    if not set(served).isdisjoint(HMAC):
        found.note(
            ABOUT,
            "Whoever can check a token that is signed by a secret can make one.",
            "Keep the file of keys to this server and the issuer, or let the issuer sign by RS256 or ES256.",
        )


def _api_keys(found: Examination, settings: Settings) -> None:
    path = settings.api_keys_file
    if path is None:
        return
    with found.about(ABOUT):
        keys = read_api_keys_file(settings)
        assert keys is not None
        found.fine(ABOUT, f"API keys in {path}: {len(keys.keys)}.")
        plain = sum(key.is_plain for key in keys.keys)
        if plain and stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH:
            found.finding(ABOUT, f"Every user of this machine may read {path}.", f"Run chmod 600 {path}.")
        if plain:
            found.note(
                ABOUT,
                f"API keys that can be read in the file: {plain}.",
                'Keep digests instead, as "sha256": `printf %s KEY | sha256sum` makes one.',
            )


def _nobody(found: Examination, settings: Settings) -> None:
    """Settings that ask for somebody, where everybody is nobody."""
    remedy = f"Set {variable('jwks')}, {variable('cognito_user_pool')} or {variable('api_keys_file')}, or leave it out."
    if settings.tenant_claim is not None:
        found.finding(ABOUT, f"{variable('tenant_claim')} asks for a tenant, which nobody can have.", remedy)
    if settings.explain_groups:
        found.finding(ABOUT, f"{variable('explain_groups')} names groups, in which nobody can be.", remedy)
