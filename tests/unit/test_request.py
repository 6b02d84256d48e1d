"""Paging arguments: two styles that never mix, sizes from 1 to 500, and one token."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import ConflictingArguments, InvalidLimit, InvalidValue
from graphql_api.query.search_request import DEFAULT_LIMIT, MAX_LIMIT, Paging, SearchRequest, parse_paging

VALUES: dict[str, Any] = {"limit": 7, "next_token": "t", "first": 7, "after": "t", "last": 7, "before": "t"}
ALLOWED = [{"limit", "next_token"}, {"first", "after"}, {"last", "before"}]


def _read(**arguments: Any) -> Paging:
    return parse_paging(SearchRequest("user", "by_created", **arguments))


def test_nothing_given_is_a_first_page() -> None:
    """Without any argument it is the first page of fifty, forward, in the index's order."""
    assert _read() == Paging(limit=50, reverse=False, backward=False, token=None, argument="next_token")
    assert (DEFAULT_LIMIT, MAX_LIMIT) == (50, 500)


@pytest.mark.parametrize(
    "chosen", [some for count in range(1, 7) for some in combinations(VALUES, count)], ids=" ".join
)
def test_styles_do_not_mix(chosen: tuple[str, ...]) -> None:
    """Arguments of one style go together in any number; any mix is refused with two names that exclude each other."""
    names = set(chosen)
    given_values = {name: VALUES[name] for name in chosen}
    if any(names <= style for style in ALLOWED):
        found = _read(**given_values)
        assert found.backward == bool(names & {"last", "before"})
        assert found.limit == (7 if names & {"limit", "first", "last"} else DEFAULT_LIMIT)
        assert found.token == ("t" if names & {"next_token", "after", "before"} else None)
        assert found.token is None or found.argument in names
        return
    with pytest.raises(ConflictingArguments) as caught:
        _read(**given_values)
    assert caught.value.argument in names
    one, _, rest = caught.value.message.partition(" and ")
    other = rest.partition(" ")[0]
    assert {one, other} <= names
    assert not any({one, other} <= style for style in ALLOWED)
    assert "Page forward with" in caught.value.message


def test_null_is_not_given() -> None:
    """An argument that is null counts as left out, whatever the others are."""
    nothing = dict.fromkeys(VALUES, None)
    assert _read(**nothing, reverse=None) == _read()
    assert _read(**{**nothing, "last": 3}) == _read(last=3)


@pytest.mark.parametrize("size", [1, 2, 499, 500])
@pytest.mark.parametrize("argument", ["limit", "first", "last"])
def test_sizes_within_bounds(argument: str, size: int) -> None:
    """Pages have 1 to 500 items, both included."""
    assert _read(**{argument: size}).limit == size


@pytest.mark.parametrize(
    "size",
    [0, -1, 501, 10**5000, -(10**5000), "5", "", 2.5, 2.0, float("nan"), True, False, [5], {}],
    ids=short_repr,
)
@pytest.mark.parametrize("argument", ["limit", "first", "last"])
def test_sizes_out_of_bounds(argument: str, size: Any) -> None:
    """Any other size is refused under the name that it was given by, and the bounds are said."""
    with pytest.raises(InvalidLimit, match=f"^{argument} must be a whole number from 1 to 500, not ") as caught:
        _read(**{argument: size})
    assert caught.value.argument == argument
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("reverse", ["true", "", 1, 0, [True], 2.0, 10**5000], ids=short_repr)
def test_reverse_is_a_boolean(reverse: Any) -> None:
    """What is neither true nor false is refused instead of being taken for one of them."""
    with pytest.raises(InvalidValue, match="reverse must be True or False") as caught:
        _read(reverse=reverse)
    assert caught.value.argument == "reverse"


@pytest.mark.parametrize("reverse", [True, False])
def test_reverse_and_backward_are_two_things(reverse: bool) -> None:
    """The order is turned by `reverse` alone, the direction of the walk by `last` and `before` alone."""
    assert [_read(reverse=reverse).reverse, _read(reverse=reverse).backward] == [reverse, False]
    assert [_read(reverse=reverse, last=5).reverse, _read(reverse=reverse, last=5).backward] == [reverse, True]
    assert _read(reverse=reverse, before="t").backward


@given(size=st.integers())
def test_every_size_is_taken_or_refused(size: int) -> None:
    """No size is quietly made to fit."""
    if 1 <= size <= 500:
        assert _read(limit=size).limit == size
    else:
        with pytest.raises(InvalidLimit):
            _read(limit=size)
