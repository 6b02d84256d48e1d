"""Laws of shards: the shard of a record, the shards that a search reads, and the effect of new generations."""

from hashlib import blake2b
from itertools import pairwise

from hypothesis import given, target
from hypothesis import strategies as st

from graphql_api.sharding.shard_space import Generation, ShardSpace

CREATED = st.integers(-2, 40)
IDS = st.text(st.sampled_from("ab|#!/é\x00\x01😀"), min_size=1, max_size=4) | st.uuids().map(str)
SIZES = st.sampled_from([1, 1, 2, 3, 5, 16, 36, 150])


@st.composite
def shard_spaces(draw: st.DrawFn) -> ShardSpace:
    """Draws one to five generations that start within the range of creation values."""
    beginnings = sorted(draw(st.sets(st.integers(0, 38), max_size=4)))
    return ShardSpace(tuple(Generation(since, draw(SIZES)) for since in (None, *beginnings)))


def expected_ordinal(space: ShardSpace, own_id: str, created: int) -> int:
    """Computes the ordinal of a record: the digest modulo the size of the last generation that had started."""
    sizes = [each.size for each in space.generations if each.since is None or each.since <= created]
    digest = int.from_bytes(blake2b(own_id.encode()).digest()[:8], "big")
    return digest % sizes[-1] + 1 if sizes[-1] > 1 else 0


def possible_ordinals(space: ShardSpace, created: int) -> set[int]:
    """Returns every ordinal that an id can have at a creation value."""
    sizes = [each.size for each in space.generations if each.since is None or each.since <= created]
    return set(range(1, sizes[-1] + 1)) if sizes[-1] > 1 else {0}


@given(space=shard_spaces(), own_id=IDS, created=CREATED)
def test_id_and_creation_value_determine_the_shard(space: ShardSpace, own_id: str, created: int) -> None:
    """The shard of a record is the digest of its id modulo the size in force at its creation value."""
    assert space.ordinal(own_id, space.generation_at(created)) == expected_ordinal(space, own_id, created)


@given(space=shard_spaces(), own_id=IDS, bounds=st.lists(CREATED, min_size=2, max_size=2).map(sorted), data=st.data())
def test_coverage_is_exactly_the_shards_that_can_hold_a_match(
    space: ShardSpace, own_id: str, bounds: list[int], data: st.DataObject
) -> None:
    """A search reads each shard that can hold a match exactly once, in order, and no other shard."""
    low = data.draw(st.sampled_from([None, bounds[0]]))
    high = data.draw(st.sampled_from([None, bounds[1]]))
    values = range(-3 if low is None else low, (41 if high is None else high) + 1)
    all_shards = space.covering_shards(created_from=low, created_to=high)
    shards_of_id = space.covering_shards(unique_id=own_id, created_from=low, created_to=high)
    target(float(len(all_shards)), label="shards visited")
    assert all_shards == tuple(sorted(set().union(*(possible_ordinals(space, created) for created in values))))
    assert shards_of_id == tuple(sorted({expected_ordinal(space, own_id, created) for created in values}))
    assert len(shards_of_id) <= len(space.generations)


@given(space=shard_spaces(), size=SIZES, later=st.integers(39, 60), own_id=IDS, created=CREATED)
def test_a_new_generation_moves_no_record(space: ShardSpace, size: int, later: int, own_id: str, created: int) -> None:
    """After a new generation, older records keep their shard and its text, and their searches read the same shards."""
    grown = ShardSpace((*space.generations, Generation(later, size)))
    before = min(created, later - 1)
    old_ordinal, new_ordinal = (each.ordinal(own_id, each.generation_at(before)) for each in (space, grown))
    assert new_ordinal == old_ordinal
    assert grown.shard_text(new_ordinal) == space.shard_text(old_ordinal)
    assert grown.covering_shards(created_to=later - 1) == space.covering_shards()
    assert set(grown.covering_shards()) == set(space.covering_shards()) | set(grown.ordinals(len(space.generations)))


@given(width=st.integers(1, 5), data=st.data())
def test_shard_texts_sort_as_ordinals(width: int, data: st.DataObject) -> None:
    """Shard texts of any width sort as their ordinals do, and all but the empty one have that width."""
    space = ShardSpace((Generation(None, 36**width),), width)
    ordinals = sorted(data.draw(st.sets(st.integers(0, 36**width), min_size=2, max_size=20)))
    texts = [space.shard_text(ordinal) for ordinal in ordinals]
    assert all(one < other for one, other in pairwise(texts))
    assert all(len(text) == width for ordinal, text in zip(ordinals, texts, strict=True) if ordinal)
