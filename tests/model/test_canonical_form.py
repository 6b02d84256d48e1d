"""The canonical form of names."""

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphql_api import canonical
from tests.laws.key_strategies import texts

ANY_TEXT = st.one_of(st.text(), texts())


def test_accents_case_and_punctuation_are_removed() -> None:
    """Accents, case and all characters except letters, digits and underscores are removed."""
    assert canonical("Gómez-Juárez-Álvarez") == "gomezjuarezalvarez"
    assert canonical("  Straße № 7_b!") == "strasseno7_b"
    assert canonical("ﬁancé") == "fiance"
    assert canonical("😀") == ""


def test_canonical_form_of_every_character_is_stable() -> None:
    """The canonical form of every assigned character is already canonical."""
    assigned = (chr(code) for code in range(sys.maxunicode + 1) if not unicodedata.category(chr(code)).startswith("C"))
    assert [mark for mark in assigned if canonical(form := canonical(mark)) != form] == []


def test_long_runs_of_marks_are_ordered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of any length is decomposed in short parts: Unicode orders a run of marks in quadratic time."""
    lengths: list[int] = []

    def normalize(form: Any, text: str) -> str:
        lengths.append(len(text))
        return original(form, text)

    original = unicodedata.normalize
    monkeypatch.setattr(unicodedata, "normalize", normalize)
    assert canonical("\u0316\u0300" * 20_000 + "É\u0f73\u3099" * 1_000) == "e" * 1_000
    assert len(lengths) > 1
    assert max(lengths) <= 1_000


@given(ANY_TEXT)
def test_canonical_is_idempotent(text: str) -> None:
    """Applying `canonical` twice gives the same text as applying it once."""
    assert canonical(canonical(text)) == canonical(text)


@given(ANY_TEXT, ANY_TEXT)
@example("e", "\u0301")
@example("\u0345", "\u0301")
def test_canonical_of_a_prefix_is_a_prefix(start: str, rest: str) -> None:
    """The canonical form of a prefix is a prefix of the canonical form, so that prefix searches match."""
    assert canonical(start + rest) == canonical(start) + canonical(rest)


@given(ANY_TEXT)
def test_composed_and_decomposed_text_have_one_canonical_form(text: str) -> None:
    """Composed and decomposed texts, and texts in different case, have the same canonical form."""
    assert canonical(unicodedata.normalize("NFC", text)) == canonical(unicodedata.normalize("NFD", text))
    assert canonical(text.casefold()) == canonical(text)
