"""Protection against cross-site request forgery (CSRF) by requests that browsers send without a preflight."""

import re

from starlette.datastructures import Headers

from graphql_api.errors import CrossSiteRequest

PREFLIGHT_HEADERS = ("apollo-require-preflight", "x-apollo-operation-name")
_FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+", re.ASCII)


def check_not_cross_site(headers: Headers) -> None:
    """Refuse a GET that a browser could send for a page of another site without a preflight.

    A custom header, or a content type that HTML forms cannot send, forces a preflight. A client that sends
    `sec-fetch-mode` without `sec-fetch-site` is no browser: browsers send both or none, and pages cannot change them.
    `fetch` of Node sends only the first.
    """
    if any(headers.get(name, "").strip() for name in PREFLIGHT_HEADERS):
        return
    media_types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
    if media_types and all(_MEDIA_TYPE.fullmatch(name) and name not in _FORM_TYPES for name in media_types):
        return
    if "sec-fetch-mode" in headers and "sec-fetch-site" not in headers:
        return
    raise CrossSiteRequest(
        "A GET needs a header that pages of other sites cannot send: "
        f"add {PREFLIGHT_HEADERS[0]}: 1, or POST the query as JSON."
    )
