"""Paging as libraries for sharded tables usually do it: the next page of each shard, and a page key for each shard.

Each page is sorted by itself. The token is the map of page keys. So shards that did not exist when the walk began are
never read. A shard without a page key is read from its beginning: on the first page, and again after its end, until
all shards end on the same page.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from graphql_api.codecs import KeyRange
from graphql_api.storage import Key, RangeRead, StartKey, Store

PageKeys = dict[str, list[str] | None]
"""the last key of each shard that has more: a range value and the key of its record; None: it begins, or has ended"""


async def read_shards(store: Store, hash_keys: Sequence[str], token: str | None, limit: int) -> dict[str, Any]:
    """Return the next page: up to `limit` places, and the token of the next page."""
    keys: PageKeys = dict.fromkeys(hash_keys) if token is None else json.loads(token)
    share = -(-limit // max(len(keys), 1))
    reads = [
        RangeRead("name", hash_key, ordinal, KeyRange(), share, start=_start(key))
        for ordinal, (hash_key, key) in enumerate(keys.items())
    ]
    answers = await asyncio.gather(*(store.read_ranges([read], share) for read in reads))
    rest: PageKeys = dict.fromkeys(keys)
    items = []
    for read, (page,) in zip(reads, answers, strict=True):
        if isinstance(page, Exception):
            raise page
        items += [row.item for row in page.rows]
        if page.scanned_to is not None and page.rows:
            last = page.rows[-1]
            rest[read.hash_key] = [str(last.value), last.key.hash, last.key.range]
    items.sort(key=lambda item: (item["nameCanonical"], item["placeId"]))
    shown = [{name: item[name] for name in ("placeId", "name", "country", "nameCanonical")} for item in items]
    return {"items": shown, "nextToken": json.dumps(rest) if any(rest.values()) else None}


def _start(key: list[str] | None) -> StartKey | None:
    return None if key is None else StartKey(key[0], Key(*key[1:]))
