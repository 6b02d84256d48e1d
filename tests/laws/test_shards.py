"""Laws of shards: where records lie, what a search visits, and that growth moves nothing."""

from hashlib import blake2b
from itertools import pairwise

from hypothesis import given, target
from hypothesis import strategies as st

from graphql_api.sharding.coverage import covering_shards
from graphql_api.sharding.shard_space import Generation, ShardSpace

CREATED = st.integers(-2, 40)
IDS = st.text(st.sampled_from("ab|#!/é\x00\x01😀"), min_size=1, max_size=4) | st.uuids().map(str)
SIZES = st.sampled_from([1, 1, 2, 3, 5, 16, 36, 150])


@st.composite
def spaces(draw: st.DrawFn) -> ShardSpace:
    """One to five generations that begin within the creation values."""
    beginnings = sorted(draw(st.sets(st.integers(0, 38), max_size=4)))
    return ShardSpace(tuple(Generation(since, draw(SIZES)) for since in (None, *beginnings)))


def home(space: ShardSpace, own_id: str, created: int) -> int:
    """Where a record lies, worked out by hand: the digest modulo the size of the last generation begun."""
    begun = [each.size for each in space.generations if each.since is None or each.since <= created]
    digest = int.from_bytes(blake2b(own_id.encode()).digest()[:8], "big")
    return digest % begun[-1] + 1 if begun[-1] > 1 else 0


def possible_homes(space: ShardSpace, created: int) -> set[int]:
    """Every ordinal that some id created then would have."""
    begun = [each.size for each in space.generations if each.since is None or each.since <= created]
    return set(range(1, begun[-1] + 1)) if begun[-1] > 1 else {0}


@given(space=spaces(), own_id=IDS, created=CREATED)
def test_a_record_lies_where_its_id_and_creation_say(space: ShardSpace, own_id: str, created: int) -> None:
    """A record's shard is its id's digest modulo the size in force at its creation value."""
    assert space.ordinal(own_id, space.generation_at(created)) == home(space, own_id, created)


@given(space=spaces(), own_id=IDS, bounds=st.lists(CREATED, min_size=2, max_size=2).map(sorted), data=st.data())
def test_coverage_is_exactly_where_records_may_lie(
    space: ShardSpace, own_id: str, bounds: list[int], data: st.DataObject
) -> None:
    """A search visits each shard that may hold a record within its bounds once, in order, and no other shard."""
    low = data.draw(st.sampled_from([None, bounds[0]]))
    high = data.draw(st.sampled_from([None, bounds[1]]))
    values = range(-3 if low is None else low, (41 if high is None else high) + 1)
    of_all = covering_shards(space, created_from=low, created_to=high)
    of_one = covering_shards(space, unique_id=own_id, created_from=low, created_to=high)
    target(float(len(of_all)), label="shards visited")
    assert of_all == tuple(sorted(set().union(*(possible_homes(space, created) for created in values))))
    assert of_one == tuple(sorted({home(space, own_id, created) for created in values}))
    assert len(of_one) <= len(space.generations)


@given(space=spaces(), size=SIZES, later=st.integers(39, 60), own_id=IDS, created=CREATED)
def test_growth_moves_nothing(space: ShardSpace, size: int, later: int, own_id: str, created: int) -> None:
    """A record from before a growth keeps its shard and its shard's text, and what is visited for it stays the same."""
    grown = ShardSpace((*space.generations, Generation(later, size)))
    before = min(created, later - 1)
    place, grown_place = (each.ordinal(own_id, each.generation_at(before)) for each in (space, grown))
    assert grown_place == place
    assert grown.shard_text(grown_place) == space.shard_text(place)
    assert covering_shards(grown, created_to=later - 1) == covering_shards(space)
    assert set(covering_shards(grown)) == set(covering_shards(space)) | set(grown.ordinals(len(space.generations)))


@given(width=st.integers(1, 5), data=st.data())
def test_texts_sort_as_ordinals(width: int, data: st.DataObject) -> None:
    """Whatever the width, shard texts sort as ordinals do, and all but the empty one have that width."""
    space = ShardSpace((Generation(None, 36**width),), width)
    ordinals = sorted(data.draw(st.sets(st.integers(0, 36**width), min_size=2, max_size=20)))
    texts = [space.shard_text(ordinal) for ordinal in ordinals]
    assert all(one < other for one, other in pairwise(texts))
    assert all(len(text) == width for ordinal, text in zip(ordinals, texts, strict=True) if ordinal)
