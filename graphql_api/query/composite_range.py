"""Convert conditions on a composite sub id, written as one text, to a range: `prefix="electronics/"`."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import (
    Between,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    encoded_range,
    parse_composite_id,
    parse_id_prefix,
    parse_leading_id_parts,
)
from graphql_api.errors import about
from graphql_api.model import IndexSpec
from graphql_api.query.search_arguments import SearchArguments, parse_shorthand, refuse_empty_range


def has_composite_sort(index: IndexSpec) -> bool:
    """Check whether shorthand conditions apply to several sort properties as one text."""
    return index.physical is None and len(index.sort) > 1


def composite_range(
    arguments: SearchArguments, id_prefix: Sequence[Condition], shorthand: Mapping[str, Any]
) -> KeyRange:
    """Return the range for shorthand conditions; `prefix="electronics/"` is an exact first part."""
    condition = parse_shorthand(shorthand)
    if isinstance(condition, Between):
        whole = encoded_range(arguments.index.columns, id_prefix)
        low = whole if condition.low is None else _range_for(arguments, id_prefix, "from_", condition.low)
        high = whole if condition.high is None else _range_for(arguments, id_prefix, "to", condition.high)
        joined = KeyRange(low.low, high.high, low.low_open, high.high_open)
        refuse_empty_range(joined, arguments.naming.common_argument("from_"), condition.low, condition.high)
        return joined
    return _range_for(arguments, id_prefix, *next(iter(shorthand.items())))


def _range_for(arguments: SearchArguments, id_prefix: Sequence[Condition], kind: str, text: Any) -> KeyRange:
    """Return the range for one of `eq`, `prefix`, `from_` and `to`."""
    parts = [part.property for part in arguments.index.sort]
    codecs, separator = [part.column.codec for part in parts], arguments.entity.separator
    arguments.descriptions.append(f'{kind.rstrip("_")} "{text}"')
    with about(arguments.naming.common_argument(kind)):
        if kind == "prefix":
            values, start = parse_id_prefix(text, codecs, separator)
            last: list[Condition] = [Prefix(start)] if start else []
        elif kind == "eq":
            values, last = parse_composite_id(text, codecs, separator), []
        else:
            *values, bound = parse_leading_id_parts(text, codecs, separator)
            last = [Between(bound, None) if kind == "from_" else Between(None, bound)]
        if kind in ("eq", "prefix"):
            arguments.known.update(zip((part.name for part in parts), values, strict=False))
        return encoded_range(arguments.index.columns, [*id_prefix, *map(Eq, values), *last])
