"""The checks of `shardql doctor` for the credentials that a server accepts."""

import stat
import time

from graphql_api.cli.doctor_report import DoctorReport
from graphql_api.server import Settings, variable_name
from graphql_api.server.auth import (
    HMAC,
    JwksUnavailable,
    KeySet,
    accepted_algorithms,
    configured_issuer,
    credential_problems,
    describe_credentials,
    jwks_loader,
    read_api_keys_file,
    read_jwks_file,
)

TOPIC = "callers"


async def check_credentials(report: DoctorReport, settings: Settings) -> None:
    """Check the accepted callers, the keys of the issuer, and the file of API keys."""
    if any(credential_problems(settings)):
        return  # Reported with the settings already.
    issuer = configured_issuer(settings)
    report.add_ok(TOPIC, f"Accepted callers: {describe_credentials(settings)}.")
    if issuer is not None:
        _check_claims(report, settings, issuer.name)
        await _check_jwks(report, settings, issuer.jwks)
    _check_api_keys(report, settings)
    if settings.production and issuer is None and settings.api_keys_file is None:
        _check_anonymous_only(report, settings)


def _check_claims(report: DoctorReport, settings: Settings, issuer: str | None) -> None:
    if issuer is None:
        report.add_finding(
            TOPIC,
            "Tokens of any issuer are accepted if their key is in the key set.",
            f"Set {variable_name('jwt_issuer')}.",
        )
    if not settings.jwt_audiences:
        report.add_finding(
            TOPIC,
            "Tokens that the issuer created for other services are accepted too.",
            f"Set {variable_name('jwt_audiences')} to the audience of this service.",
        )


async def _check_jwks(report: DoctorReport, settings: Settings, jwks: str) -> None:
    with report.errors_as_failures(TOPIC):
        keys = read_jwks_file(settings)
        if keys is None:
            keys = await _fetch_jwks(report, settings, jwks)
        if keys is not None:
            _check_keys(report, settings, jwks, keys)


async def _fetch_jwks(report: DoctorReport, settings: Settings, jwks: str) -> KeySet | None:
    started = time.monotonic()
    try:
        keys = await jwks_loader(jwks, accepted_algorithms(settings))()
    except JwksUnavailable as error:
        report.add_finding(TOPIC, f"{jwks} is unavailable: {error}", "Until it responds, no bearer token is accepted.")
        return None
    report.add_ok(TOPIC, f"{jwks} responds in {(time.monotonic() - started) * 1000:,.0f} ms.")
    return keys


def _check_keys(report: DoctorReport, settings: Settings, jwks: str, keys: KeySet) -> None:
    supported = sorted({name for key in keys.keys for name in key.algorithms})
    skipped = f" Of other types or too weak: {keys.skipped}." if keys.skipped else ""
    if keys.keys:
        report.add_ok(TOPIC, f"Usable keys of {jwks}: {len(keys.keys)}, for {', '.join(supported)}.{skipped}")
    else:
        report.add_finding(
            TOPIC, f"No key of {jwks} is usable.{skipped}", "Until there is one, no bearer token is accepted."
        )
    unsupported = sorted(set(settings.jwt_algorithms) - set(supported))
    if keys.keys and unsupported:
        report.add_note(
            TOPIC, f"No key supports {', '.join(unsupported)}.", f"Remove it from {variable_name('jwt_algorithms')}."
        )
    if not set(supported).isdisjoint(HMAC):
        report.add_note(
            TOPIC,
            "Anyone who can verify a token signed with a secret can also create one.",
            "Share the key file only with the issuer, or let the issuer sign with RS256 or ES256.",
        )


def _check_api_keys(report: DoctorReport, settings: Settings) -> None:
    path = settings.api_keys_file
    if path is None:
        return
    with report.errors_as_failures(TOPIC):
        keys = read_api_keys_file(settings)
        assert keys is not None
        report.add_ok(TOPIC, f"API keys in {path}: {len(keys.keys)}.")
        plain = sum(key.is_plain for key in keys.keys)
        if plain and stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH:
            report.add_finding(TOPIC, f"Every user of this machine can read {path}.", f"Run chmod 600 {path}.")
        if plain:
            report.add_note(
                TOPIC,
                f"API keys stored in plain text: {plain}.",
                'Store digests instead, as "sha256": `printf %s KEY | sha256sum` computes one.',
            )


def _check_anonymous_only(report: DoctorReport, settings: Settings) -> None:
    """Report settings that need authenticated callers, if the server accepts only anonymous ones."""
    variables = ", ".join(map(variable_name, ("jwks", "cognito_user_pool")))
    remedy = f"Set {variables} or {variable_name('api_keys_file')}, or remove the setting."
    if settings.tenant_claim is not None:
        report.add_finding(
            TOPIC, f"{variable_name('tenant_claim')} requires a tenant, which no caller can have.", remedy
        )
    if settings.explain_groups:
        report.add_finding(TOPIC, f"{variable_name('explain_groups')} names groups, which no caller can have.", remedy)
