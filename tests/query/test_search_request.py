"""Paging arguments: two styles that exclude each other, sizes from 1 to 500, and one token."""

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


def _paging(**arguments: Any) -> Paging:
    return parse_paging(SearchRequest("user", "by_created", **arguments))


def test_without_arguments_the_first_page_is_requested() -> None:
    """Without arguments, a search returns the first page of fifty records, forward, in the order of the index."""
    assert _paging() == Paging(50, False, False, "next_token", "next_token")
    assert (DEFAULT_LIMIT, MAX_LIMIT) == (50, 500)


@pytest.mark.parametrize(
    "chosen", [some for count in range(1, 7) for some in combinations(VALUES, count)], ids=" ".join
)
def test_paging_styles_exclude_each_other(chosen: tuple[str, ...]) -> None:
    """Arguments of one style can be combined; a mix is rejected with the names of two conflicting arguments."""
    names = set(chosen)
    given_values = {name: VALUES[name] for name in chosen}
    if any(names <= style for style in ALLOWED):
        found = _paging(**given_values)
        assert found.backward == bool(names & {"last", "before"})
        assert found.limit == (7 if names & {"limit", "first", "last"} else DEFAULT_LIMIT)
        assert {found.token_field} >= names & {"next_token", "after", "before"}
        assert found.argument == found.token_field
        return
    with pytest.raises(ConflictingArguments) as caught:
        _paging(**given_values)
    assert caught.value.argument in names
    one, _, rest = caught.value.message.partition(" and ")
    other = rest.partition(" ")[0]
    assert {one, other} <= names
    assert not any({one, other} <= style for style in ALLOWED)
    assert "Page forward with" in caught.value.message


def test_null_counts_as_omitted() -> None:
    """A null argument counts as omitted."""
    nothing = dict.fromkeys(VALUES, None)
    assert _paging(**nothing, reverse=None) == _paging()
    assert _paging(**{**nothing, "last": 3}) == _paging(last=3)


@pytest.mark.parametrize("size", [1, 2, 499, 500])
@pytest.mark.parametrize("argument", ["limit", "first", "last"])
def test_sizes_within_bounds_are_valid(argument: str, size: int) -> None:
    """Page sizes from 1 to 500 are valid."""
    assert _paging(**{argument: size}).limit == size


@pytest.mark.parametrize(
    "size",
    [0, -1, 501, 10**5000, -(10**5000), "5", "", 2.5, 2.0, float("nan"), True, False, [5], {}],
    ids=short_repr,
)
@pytest.mark.parametrize("argument", ["limit", "first", "last"])
def test_sizes_out_of_bounds_are_rejected(argument: str, size: Any) -> None:
    """Any other size is rejected; the error names the argument and the bounds."""
    with pytest.raises(InvalidLimit, match=f"^{argument} must be a whole number from 1 to 500, not ") as caught:
        _paging(**{argument: size})
    assert caught.value.argument == argument
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("reverse", ["true", "", 1, 0, [True], 2.0, 10**5000], ids=short_repr)
def test_reverse_is_a_boolean(reverse: Any) -> None:
    """Only booleans are valid for `reverse`."""
    with pytest.raises(InvalidValue, match="reverse must be True or False") as caught:
        _paging(reverse=reverse)
    assert caught.value.argument == "reverse"


@pytest.mark.parametrize("reverse", [True, False])
def test_reverse_and_backward_are_independent(reverse: bool) -> None:
    """`reverse` alone determines the order, and `last` and `before` alone the direction of paging."""
    assert [_paging(reverse=reverse).reverse, _paging(reverse=reverse).backward] == [reverse, False]
    assert [_paging(reverse=reverse, last=5).reverse, _paging(reverse=reverse, last=5).backward] == [reverse, True]
    assert _paging(reverse=reverse, before="t").backward


@given(size=st.integers())
def test_every_size_is_accepted_or_rejected(size: int) -> None:
    """No size is silently adjusted."""
    if 1 <= size <= 500:
        assert _paging(limit=size).limit == size
    else:
        with pytest.raises(InvalidLimit):
            _paging(limit=size)
