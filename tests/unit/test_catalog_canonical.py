"""The canonical form of names."""

import sys
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from graphql_api import canonical
from tests.laws.strategies import texts

ANY_TEXT = st.one_of(st.text(), texts())


def test_accents_case_and_marks_fall_away() -> None:
    """Accents, case and whatever is no letter, digit or underscore fall away."""
    assert canonical("Gómez-Juárez-Álvarez") == "gomezjuarezalvarez"
    assert canonical("  Straße № 7_b!") == "strasseno7_b"
    assert canonical("ﬁancé") == "fiance"
    assert canonical("😀") == ""


def test_every_character_has_a_stable_form() -> None:
    """The canonical form of every assigned character is canonical itself."""
    assigned = (chr(code) for code in range(sys.maxunicode + 1) if not unicodedata.category(chr(code)).startswith("C"))
    assert [mark for mark in assigned if canonical(form := canonical(mark)) != form] == []


@given(ANY_TEXT)
def test_canonical_is_idempotent(text: str) -> None:
    """Making a canonical text canonical changes nothing."""
    assert canonical(canonical(text)) == canonical(text)


@given(ANY_TEXT, ANY_TEXT)
@example("e", "\u0301")
@example("\u0345", "\u0301")
def test_canonical_of_a_prefix_is_a_prefix(start: str, rest: str) -> None:
    """The canonical form of a text begins with that of each of its beginnings, so prefix searches find it."""
    assert canonical(start + rest) == canonical(start) + canonical(rest)


@given(ANY_TEXT)
def test_composition_makes_no_difference(text: str) -> None:
    """Composed and decomposed texts, and texts in other case, have one canonical form."""
    assert canonical(unicodedata.normalize("NFC", text)) == canonical(unicodedata.normalize("NFD", text))
    assert canonical(text.casefold()) == canonical(text)
