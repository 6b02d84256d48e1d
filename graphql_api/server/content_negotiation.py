"""Content negotiation: the media type of a response, from the `Accept` headers."""

from collections.abc import Iterator, Sequence
from operator import itemgetter

from graphql_api.errors import NotAcceptable

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"
HTML = "text/html"

_EXACT_ORDER = (GRAPHQL, JSON, HTML)
"""Order of preference among media types that are named exactly, with equal quality."""
_WILDCARD_ORDER = (JSON, GRAPHQL, HTML)
"""The same for wildcards such as `*/*`: clients that predate GRAPHQL expect JSON."""


def negotiate_media_type(accept: Sequence[str], offered: Sequence[str]) -> str:
    """Return the offered media type that the `Accept` headers prefer. Without such headers, return JSON."""
    ranges = [media_range for value in accept for media_range in _media_ranges(value)]
    if not ranges:
        return JSON
    ranked = []
    for media_type in offered:
        specificity, quality = max(
            ((_specificity(name, media_type), quality) for name, quality in ranges), key=itemgetter(0)
        )
        if specificity and quality > 0:
            order = _EXACT_ORDER if specificity == _EXACT else _WILDCARD_ORDER
            ranked.append((quality, specificity, -order.index(media_type), media_type))
    if not ranked:
        raise NotAcceptable(
            f"Accept: {', '.join(accept)[:100]} matches no media type of this server: accept {GRAPHQL} or {JSON}.",
            argument="accept",
        )
    return max(ranked)[-1]


_EXACT = 3


def _specificity(media_range: str, media_type: str) -> int:
    """Return how specifically a media range matches a media type: exactly, by family, by `*/*`, or 0 for no match."""
    if media_range == media_type:
        return _EXACT
    if media_range == media_type.partition("/")[0] + "/*":
        return 2
    return 1 if media_range == "*/*" else 0


def _media_ranges(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name:
            yield name, next((_quality(piece[2:]) for piece in parameters if piece.startswith("q=")), 1.0)


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
