"""Columns of stored items: for which classes codecs suffice, and what they read."""

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field, field_validator, model_validator

from graphql_api import Catalog, Entity, Id, Int32, Timestamp, derived, stored
from graphql_api.errors import InvalidValue
from graphql_api.model import StoredColumns, UndecodedRecord, expected_types, is_plain_model
from graphql_api.storage import EncodedRecords


class Plain(Entity):
    """Has scalars, markers, a default, and a list."""

    key: Id[str]
    at: Timestamp | None = None
    size: Annotated[Int32, stored("sz")] = 3
    tags: list[str]
    text: str | None
    code: str | None = "c"
    loud: str = derived(str.upper, "key")


class WithValidator(Plain):
    """Validates a property."""

    @field_validator("text")
    @classmethod
    def _check(cls, value: Any) -> Any:
        return value


class WithModelValidator(Plain):
    """Validates the record."""

    @model_validator(mode="after")
    def _check(self) -> "WithModelValidator":
        return self


class WithConstraint(Plain):
    """Limits a property."""

    short: Annotated[str, Field(max_length=3)] = ""


class WithLiteral(Plain):
    """Allows few values."""

    kind: Literal["a", "b"] = "a"


class WithConfig(Plain):
    """Configures pydantic."""

    model_config = ConfigDict(str_to_lower=True)


class WithHook(Plain):
    """Has code that runs after the validation."""

    def model_post_init(self, _: Any, /) -> None:
        pass


class WithOwnDerivation(Plain):
    """Computes derived properties itself."""

    def compute_derived(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    "model",
    [WithValidator, WithModelValidator, WithConstraint, WithLiteral, WithConfig, WithHook, WithOwnDerivation],
)
def test_classes_with_code_of_their_own_are_not_plain(model: type[Entity]) -> None:
    """Codecs alone do not determine the records of a class that adds code, constraints or settings."""
    assert is_plain_model(Plain)
    assert not is_plain_model(model)


SPEC = Catalog(Plain).entity(Plain)
ITEM = {"key": "k", "at": 7, "sz": 1, "tags": ["a"], "text": "t", "code": None}


def columns(*items: dict[str, Any]) -> StoredColumns:
    """Return the columns of items."""
    return StoredColumns(SPEC, EncodedRecords([*items]))


def test_values() -> None:
    """Values are those of decoded records: nulls, constant defaults and derived properties too."""
    found = columns(ITEM, {"key": "l", "tags": [], "text": None})
    assert [*found.values("at")] == [7, None]
    assert [*found.values("size")] == [1, 3]
    assert [*found.values("tags")] == [["a"], []]
    assert [*found.values("code")] == [None, "c"]
    assert [*found.values("loud")] == ["K", "L"]
    first, _ = found.records_of({name: found.values(name) for name in ("key", "size")})
    assert vars(first) == {"key": "k", "size": 1}


def test_refused_values() -> None:
    """A codec refuses values of other types, and a required property has no default."""
    with pytest.raises(InvalidValue):
        columns({**ITEM, "sz": "x"}).values("size")
    with pytest.raises(UndecodedRecord):
        columns({"tags": []}).values("key")


@pytest.mark.parametrize(
    "change",
    [{"key": None}, {"key": 7}, {"at": "7"}, {"sz": True}, {"tags": None}, {"text": b"t"}],
)
def test_properties_that_are_not_selected_are_checked(change: dict[str, Any]) -> None:
    """A record without a required value, or with a value of another type, is found without decoding it."""
    expected = expected_types(SPEC, {"code"})
    columns(ITEM, {**ITEM, "sz": Decimal(2), "at": None}).check_types(expected)
    with pytest.raises(UndecodedRecord):
        columns(ITEM, {**ITEM, **change}).check_types(expected)
