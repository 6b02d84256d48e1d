"""Shard functions, shard texts, and the hash keys that a search reads."""

from collections import Counter
from random import Random

import pytest

from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Created, Id, Index, Shards, SubId, Timestamp, desc
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding.shard_space import ONE_SHARD, Generation, ShardSpace, blake2b_number, string_hash
from tests.support.run_depth import depth

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])


# --- shard functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 5381),
        ("a", 177604),
        ("b", 177607),
        ("ab", 5861062),
        ("ba", 5860902),
        ("wf5y", 2088467640),
        ("gomezjuarez", 1458633100),
        ("Gómez-Juárez", 380013853),
        ("日本語", 160570738),
        ("\x00", 177573),
        ("\ud7ff", 156250),
        ("\ue000", 152997),
        ("😀", 5191800),
        ("a😀b", 2104677531),
        ("\U0010ffff", 5205605),
        ("user@example.com", 3156506419),
        ("x" * 100, 1488129285),
        ("0123456789abcdef" * 8, 1638114821),
    ],
)
def test_string_hash_equals_the_npm_package(text: str, number: int) -> None:
    """`string_hash` equals version 1.1.3 of the npm package `string-hash` in Node."""
    assert string_hash(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 8676750893070244099),
        ("wf5y", 14789386061938672933),
        ("prod\x01|orders", 18267873075872901048),
        ("Gómez-Juárez", 16225860698331561065),
        ("😀", 13516939222215045704),
    ],
)
def test_blake2b_numbers_never_change(text: str, number: int) -> None:
    """The hash of an id is pinned, since it determines the shard of every stored record."""
    assert blake2b_number(text) == number


def fullest_shard_ratio(count: int, size: int, random: Random) -> float:
    """Returns the size of the fullest shard as a multiple of the mean; half of the ids are consecutive, half random."""
    space = ShardSpace((Generation(None, size),))
    counts = Counter(space.ordinal(f"user-{number}", 0) for number in range(count // 2))
    counts.update(space.ordinal(f"{random.getrandbits(80):x}", 0) for _ in range(count - count // 2))
    assert set(counts) == set(space.ordinals(0))
    return max(counts.values()) * size / count


def test_ids_spread_evenly(random: Random) -> None:
    """Of 100,000 ids over 16 shards, the fullest shard holds at most 6 standard deviations more than the mean."""
    # The count of one shard has the standard deviation √(n·p·(1-p)): here 76.5, with a mean of 6,250.
    assert fullest_shard_ratio(100_000, 16, random) <= 1 + 6 * 76.5 / 6_250


@pytest.mark.deep
def test_a_million_ids_spread_evenly(random: Random) -> None:
    """Of a million ids over 16 shards, the fullest shard holds at most 1.02 times the mean."""
    assert fullest_shard_ratio(1_000_000, 16, random) <= 1.02


# --- texts and ordinals ----------------------------------------------------------------------------------------


def test_shard_texts_are_base_36_of_one_width() -> None:
    """The text of a shard is its number in base 36, padded; the only shard of a generation has an empty text."""
    space = ShardSpace((Generation(None, 1), Generation(10, 1296)))
    assert [space.shard_text(ordinal) for ordinal in (0, 1, 2, 10, 11, 36, 37, 1296)] == [
        *("", "00", "01", "09", "0a", "0z", "10", "zz")
    ]
    assert (ONE_SHARD.ordinal("anything", 0), list(ONE_SHARD.ordinals(0))) == (0, [0])


@pytest.mark.parametrize("width", [1, 2, 3])
def test_text_order_is_ordinal_order(width: int) -> None:
    """Shard texts are distinct, sort as their ordinals do, and parse back to the number."""
    space = ShardSpace((Generation(None, 36**width),), width)
    texts = [space.shard_text(ordinal) for ordinal in range(36**width + 1)]
    assert texts == sorted(set(texts))
    assert [int(text, 36) + 1 for text in texts[1:]] == list(range(1, 36**width + 1))


def test_generations_begin_at_their_first_creation_value() -> None:
    """A generation is in force from its start date, inclusive."""
    space = ShardSpace((Generation(None, 1), Generation(10, 4), Generation(20, 2)))
    assert [space.generation_at(created) for created in (-5, 9, 10, 19, 20, 99)] == [0, 0, 1, 1, 2, 2]


# --- hash keys of a search -------------------------------------------------------------------------------------


class Author(Entity, shards=Shards(1).then(4, since=100).then(3, since=200)):
    """An entity with three generations."""

    author_id: Id[str]
    country: str
    created: Created[Timestamp]

    by_created = Index(sort="created")
    by_newest = Index(sort=desc("created"), name="newest")
    by_country = Index(hash="country", sort="created")
    by_place = Index(hash="country", sharded=False, name="place")


class Post(Entity):
    """An entity with one shard, and an index that is sharded like its author."""

    post_id: Id[str]
    author_id: str
    created: Created[Timestamp]

    by_author = Index(hash="author_id", sort="created", sharded="Author")


class Step(Entity, shards=Shards(2).then(8, since=100)):
    """A history over two generations."""

    order_id: Id[str]
    number: SubId[int]
    created: Created[Timestamp]


CATALOG = Catalog(Author, Post, Step)


def hash_keys_read(entity: str, index: str, **arguments: object) -> list[str]:
    """Returns the hash keys that a search reads."""
    plan = plan_search(CATALOG, SearchRequest(entity, index, arguments), 0, SEAL)
    return list(plan.describe()["hashKeys"])


def hash_keys_of(*texts: str, head: str = "author", rest: str = "") -> list[str]:
    """Returns the hash keys of some shards."""
    return [f"{head}!{text}{rest}" for text in texts]


@pytest.mark.parametrize("index", ["by_created", "by_newest"])
@pytest.mark.parametrize(
    ("bounds", "texts"),
    [
        ({}, ["", "00", "01", "02", "03"]),
        ({"to": 99}, [""]),
        ({"from_": 99, "to": 100}, ["", "00", "01", "02", "03"]),
        ({"from_": 100, "to": 199}, ["00", "01", "02", "03"]),
        ({"from_": 200}, ["00", "01", "02"]),
        ({"from_": 199}, ["00", "01", "02", "03"]),
        ({"eq": 99}, [""]),
        ({"eq": 200}, ["00", "01", "02"]),
    ],
)
def test_creation_bounds_select_the_generations_in_force(
    index: str, bounds: dict[str, object], texts: list[str]
) -> None:
    """Bounds on the creation property select the shards of the generations in force, each of them once."""
    assert hash_keys_read("Author", index, **bounds) == hash_keys_of(*texts)


def test_a_hash_property_is_part_of_every_hash_key() -> None:
    """An index with a hash property reads the same shards under its value; an unsharded index reads one hash key."""
    assert hash_keys_read("Author", "by_country", country="se", from_=200) == hash_keys_of(
        "00", "01", "02", rest="|country#se"
    )
    assert hash_keys_read("Author", "by_place", country="se") == ["author!|country#se"]


def test_a_known_id_selects_one_shard_per_generation() -> None:
    """A search for one id reads one hash key per generation, and a hash key shared by generations only once."""
    for number in range(depth(200, 5_000)):
        own_id = f"a{number}"
        expected = ["", *sorted({f"0{blake2b_number(own_id) % size}" for size in (4, 3)})]
        assert hash_keys_read("Author", "by_id", eq=own_id) == hash_keys_of(*expected)
        assert hash_keys_read("Step", "by_id", order_id=own_id) == hash_keys_of(
            *sorted({f"0{blake2b_number(own_id) % size}" for size in (2, 8)}), head="step"
        )


def test_an_index_sharded_like_its_parent_reads_the_shards_of_the_parent() -> None:
    """A search by the parent reads one hash key per generation of the parent that the creation bounds allow."""
    four, three = (f"0{blake2b_number('a1') % size}" for size in (4, 3))
    assert four != three
    rest = "|authorId#a1"
    assert hash_keys_read("Post", "by_author", author_id="a1") == hash_keys_of("", *sorted([four, three]), rest=rest)
    assert hash_keys_read("Post", "by_author", author_id="a1", to=99) == hash_keys_of("", rest=rest)
    assert hash_keys_read("Post", "by_author", author_id="a1", from_=100, to=150) == hash_keys_of(four, rest=rest)
    assert hash_keys_read("Post", "by_author", author_id="a1", eq=300) == hash_keys_of(three, rest=rest)
    assert hash_keys_read("Post", "by_id") == ["post!"]
