"""Keeps pages of other sites from using a visitor's browser to send requests that it sends without asking."""

import re

from starlette.datastructures import Headers

from graphql_api.errors import CrossSiteRequest

PREFLIGHT_HEADERS = ("apollo-require-preflight", "x-apollo-operation-name")
_SIMPLE = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+", re.ASCII)


def check_not_cross_site(headers: Headers) -> None:
    """Refuses a GET that a browser may send for any page without asking the server first.

    It asks before it sends a header of one's own, or a content type that no form has. A client that sends
    `sec-fetch-mode` without `sec-fetch-site` is no browser either: browsers send both or none, and no page can change
    them; `fetch` of Node and its kin sends the first alone.
    """
    if any(headers.get(name, "").strip() for name in PREFLIGHT_HEADERS):
        return
    media_types = [value.partition(";")[0].strip().lower() for value in headers.getlist("content-type")]
    if media_types and all(_MEDIA_TYPE.fullmatch(found) and found not in _SIMPLE for found in media_types):
        return
    if "sec-fetch-mode" in headers and "sec-fetch-site" not in headers:
        return
    raise CrossSiteRequest(
        f"A GET needs a header that no foreign page can send: add {PREFLIGHT_HEADERS[0]}: 1, or POST the query as JSON."
    )
