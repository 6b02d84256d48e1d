"""Which of the forms in which the server answers a client likes best."""

from collections.abc import Iterator, Sequence
from operator import itemgetter

from graphql_api.errors import NotAcceptable

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"
HTML = "text/html"

_NAMED_FIRST = (GRAPHQL, JSON, HTML)
"""of forms that are named and liked equally"""
_UNNAMED_FIRST = (JSON, GRAPHQL, HTML)
"""of forms that `*/*` admits: clients from before the newer form expect the older"""


def best_form(accept: Sequence[str], offered: Sequence[str]) -> str:
    """The form to answer in, by the values of the `Accept` headers; without any it is JSON."""
    ranges = [found for value in accept for found in _ranges(value)]
    if not ranges:
        return JSON
    ranked = []
    for form in offered:
        exactness, quality = max(((_exactness(name, form), quality) for name, quality in ranges), key=itemgetter(0))
        if exactness and quality > 0:
            order = _NAMED_FIRST if exactness == _NAMED else _UNNAMED_FIRST
            ranked.append((quality, exactness, -order.index(form), form))
    if not ranked:
        raise NotAcceptable(
            f"Accept: {', '.join(accept)[:100]} admits no answer: accept {GRAPHQL} or {JSON}.", argument="accept"
        )
    return max(ranked)[-1]


_NAMED = 3


def _exactness(media_range: str, form: str) -> int:
    """How exactly a media range names a form: not at all, as anything, by its family, by its name."""
    if media_range == form:
        return _NAMED
    if media_range == form.partition("/")[0] + "/*":
        return 2
    return 1 if media_range == "*/*" else 0


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
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
