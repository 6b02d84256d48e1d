"""Shard generations in which no record is placed yet: readers include them, writers do not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from graphql_api.sharding.shard_space import Generation, ShardSpace

BEGINNINGS = st.lists(st.integers(0, 40), max_size=4, unique=True).map(sorted)
CREATED = st.none() | st.integers(-5, 45)


@st.composite
def shard_spaces(draw: st.DrawFn) -> ShardSpace:
    """Shard spaces of one to five generations; any number of the last ones is pending."""
    beginnings = draw(BEGINNINGS)
    sizes = draw(st.lists(st.integers(1, 5), min_size=len(beginnings) + 1, max_size=len(beginnings) + 1))
    generations = tuple(map(Generation, [None, *beginnings], sizes))
    return ShardSpace(generations, pending=draw(st.integers(0, len(beginnings))))


@given(shard_spaces(), CREATED, CREATED, CREATED, st.text("ab", min_size=1, max_size=4), st.data())
def test_every_placed_record_is_covered(
    space: ShardSpace, created: int | None, low: int | None, high: int | None, own_id: str, data: st.DataObject
) -> None:
    """A search covers the shard of each record in its bounds, also if a writer already uses more generations."""
    writer = replace(space, pending=data.draw(st.integers(0, space.pending)))
    in_bounds = (
        (low is None and high is None)
        if created is None
        else ((low is None or low <= created) and (high is None or created <= high))
    )
    if not in_bounds:
        return
    ordinal = writer.ordinal(own_id, writer.generation_at(created))
    assert ordinal in space.covering_shards(created_from=low, created_to=high)
    assert ordinal in space.covering_shards(unique_id=own_id, created_from=low, created_to=high)


@given(shard_spaces(), CREATED)
def test_no_record_is_placed_in_a_pending_generation(space: ShardSpace, created: int | None) -> None:
    """Records are placed as if pending generations did not exist; without a creation value, in the first one."""
    settled = len(space.generations) - space.pending
    beginnings = [generation.since or 0 for generation in space.generations[1:settled]]
    expected = 0 if created is None else sum(since <= created for since in beginnings)
    assert space.generation_at(created) == expected < settled


def test_a_search_from_a_late_creation_value_includes_the_last_settled_generation() -> None:
    """Bounds exclude the generations before a pending one only if it is not the last one that holds records."""
    space = ShardSpace((Generation(None, 1), Generation(10, 3)), pending=1)
    assert space.covering_shards(created_from=10) == (0, 1, 2, 3)
    assert space.covering_shards(created_to=9) == (0,)
    assert replace(space, pending=0).covering_shards(created_from=10) == (1, 2, 3)
