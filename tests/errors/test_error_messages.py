"""Error messages: templates with named values, whose names are resolved for each audience."""

import ast
import inspect
from collections.abc import Iterator
from copy import copy
from string import Formatter

import pytest

from graphql_api import errors
from graphql_api.errors import (
    PYTHON_RESOLVER,
    ArgumentName,
    ConditionFailed,
    FieldPath,
    FieldProblem,
    FieldProblemList,
    ImmutableChanged,
    InvalidRecord,
    InvalidValue,
    LimitExceeded,
    Localizable,
    Message,
    NameList,
    NameResolver,
    PropertyName,
    QueryTooLong,
    SearchName,
    ShardQLError,
    Unauthenticated,
    VersionConflict,
    about,
    for_one_of_several,
    suggest,
)
from tests.docs.pages import ROOT


class UpperCaseResolver(NameResolver):
    """A naming scheme that writes names in capitals."""

    def property_name(self, name: str) -> str:
        return name.upper()

    def argument_name(self, name: str) -> str:
        return f"--{name}"

    def search_name(self, entity: str, index: str) -> str:
        return f"{entity}?{index}"

    def field_path(self, path: FieldPath) -> str:
        return "/".join(path.location).upper()

    def field_message(self, path: FieldPath, message: str) -> str:
        return f"{message} at {len(path.location)}"


FIRST_NAME = PropertyName("first_name", "User")
DATA = "x first_name {property} {0} {} %s User.first_name 'first_name'"


@pytest.mark.parametrize(
    ("reference", "python", "upper_case"),
    [
        (PropertyName("first_name"), "first_name", "FIRST_NAME"),
        (FIRST_NAME, "User.first_name", "User.FIRST_NAME"),
        (ArgumentName("expected_version"), "expected_version", "--expected_version"),
        (SearchName("User", "by_first_name"), "User.by_first_name", "User?by_first_name"),
        (FieldPath("User", ("address", "zip_code")), "address.zip_code", "ADDRESS/ZIP_CODE"),
        (FieldPath("User", ()), "record", ""),
        (NameList((FIRST_NAME, PropertyName("town"))), "User.first_name and town", "User.FIRST_NAME and TOWN"),
        (NameList((FIRST_NAME,), ", "), "User.first_name", "User.FIRST_NAME"),
        (Message("{a} of {b}", a=FIRST_NAME, b=DATA), f"User.first_name of {DATA}", f"User.FIRST_NAME of {DATA}"),
    ],
)
def test_names_by_audience(reference: Localizable, python: str, upper_case: str) -> None:
    """A reference resolves to the Python name by default, and to another name for another audience."""
    assert str(reference) == python
    assert reference.resolve(PYTHON_RESOLVER) == python
    assert reference.resolve(UpperCaseResolver()) == upper_case


def test_a_message_without_values_is_verbatim() -> None:
    """Braces in a message without values are no placeholders, for any audience."""
    error = InvalidValue(DATA, argument="first_name", shard="{shard}")
    for copied in (error, error.localized(UpperCaseResolver())):
        assert (copied.message, copied.argument, copied.shard) == (DATA, "first_name", "{shard}")
        assert str(copied) == DATA


def test_values_are_formatted_once() -> None:
    """Data that looks like a name or a placeholder is unchanged, for any audience."""
    error = ImmutableChanged(
        "{property} of {record} has {size:,} bytes.",
        property=FIRST_NAME,
        record=DATA,
        size=1_100,
        argument=PropertyName("first_name"),
    )
    localized = error.localized(UpperCaseResolver())
    assert error.message == f"User.first_name of {DATA} has 1,100 bytes."
    assert localized.message == str(localized) == f"User.FIRST_NAME of {DATA} has 1,100 bytes."
    assert error.extensions == {"code": "IMMUTABLE", "argument": "first_name"}
    assert localized.extensions == {"code": "IMMUTABLE", "argument": "FIRST_NAME"}
    assert type(localized) is ImmutableChanged
    assert error.message.startswith("User.first_name"), "the original is unchanged"


def test_nested_errors() -> None:
    """An error as a value is replaced by its message, with names resolved for the same audience."""
    inner = InvalidValue("{property} is {value}.", property=FIRST_NAME, value=DATA)
    outer = InvalidValue("{record}: {problem}", record="User {a}", problem=inner)
    outer.rephrase("{key} failed: {problem}", key=ArgumentName("idempotency_key"))
    assert outer.message == f"idempotency_key failed: User {{a}}: User.first_name is {DATA}."
    localized = outer.localized(UpperCaseResolver())
    assert localized.message == f"--idempotency_key failed: User {{a}}: User.FIRST_NAME is {DATA}."
    assert inner.message == f"User.first_name is {DATA}."


def test_argument_prefix() -> None:
    """The argument of an error becomes a prefix of its message once. It is resolved for each audience."""
    with pytest.raises(InvalidValue) as caught, about("other"), about(PropertyName("first_name")), about(None):
        raise InvalidValue("{first_name} is no date.")
    assert caught.value.args == (caught.value.message,) == ("first_name: {first_name} is no date.",)
    localized = caught.value.localized(UpperCaseResolver())
    assert (localized.argument, localized.message) == ("FIRST_NAME", "FIRST_NAME: {first_name} is no date.")
    with pytest.raises(InvalidValue) as caught, about("first_name"):
        raise InvalidValue("{property} is no date.", property=FIRST_NAME)
    localized = caught.value.localized(UpperCaseResolver())
    assert (localized.argument, localized.message) == ("first_name", "first_name: User.FIRST_NAME is no date.")


def test_fields_of_a_record() -> None:
    """Message, argument and fields contain the same path for each audience."""
    problems = [(FieldPath("User", ("address", "0")), "Input {x}"), (FieldPath("User", ("first_name",)), "first_name")]
    error = InvalidRecord(
        "{problems}.",
        problems=FieldProblemList(problems, left_out=1_200),
        argument=problems[0][0],
        fields=problems,
        left_out=1_200,
    )
    assert error.message == "User.address.0: Input {x}; User.first_name: first_name; and 1,200 more."
    assert error.fields == (FieldProblem("address.0", "Input {x}"), FieldProblem("first_name", "first_name"))
    assert (error.argument, error.left_out) == ("address.0", 1_200)
    localized = error.localized(UpperCaseResolver())
    assert localized.message == "User.ADDRESS/0: Input {x} at 2; User.FIRST_NAME: first_name at 1; and 1,200 more."
    assert localized.extensions == {
        "code": "INVALID_RECORD",
        "argument": "ADDRESS/0",
        "fields": [
            {"field": "ADDRESS/0", "message": "Input {x} at 2"},
            {"field": "FIRST_NAME", "message": "first_name at 1"},
        ],
    }
    plain = InvalidRecord("Wrong.", fields=[FieldProblem("a.b", "c")])
    assert plain.localized(UpperCaseResolver()).extensions["fields"] == [{"field": "a.b", "message": "c"}]


COPIED = [
    VersionConflict("{record} changed.", version=3, record="a"),
    ConditionFailed("Failed.", position=1, old={"a": 1}),
    Unauthenticated("Late.", passing=True),
    QueryTooLong("Long.", limit=1, found=2),
    InvalidRecord("Wrong.", fields=[FieldProblem("a", "b")]),
]


@pytest.mark.parametrize("error", COPIED, ids=lambda error: type(error).__name__)
def test_copies_keep_everything(error: ShardQLError) -> None:
    """A copy has the class, message and extensions of the original, for any constructor."""
    for duplicate in (copy(error), for_one_of_several(error), error.localized(PYTHON_RESOLVER)):
        assert type(duplicate) is type(error)
        assert (duplicate.args, duplicate.message, duplicate.extensions) == (
            error.args,
            error.message,
            error.extensions,
        )
        assert vars(duplicate).keys() >= vars(error).keys()
    assert for_one_of_several(error).__cause__ is error


# --- templates in the source -----------------------------------------------------------------------------------


CLASSES = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
OWN_PARAMETERS = {
    name: {"argument", "shard", *inspect.signature(value).parameters} - {"values"}
    for name, value in CLASSES.items()
    if issubclass(value, ShardQLError)
} | {"Message": set[str](), "rephrase": set[str]()}


def templates(source: str) -> Iterator[tuple[int, ast.expr, set[str]]]:
    """Yield each message of a source text: line, template, and names of values."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called not in OWN_PARAMETERS:
            continue
        values = {keyword.arg for keyword in node.keywords if keyword.arg is not None} - OWN_PARAMETERS[called]
        if called == "rephrase":
            values.add("problem")
        yield node.lineno, node.args[0], values


def invalid_messages(source: str) -> list[int]:
    """Return the lines of messages without a literal template, or with placeholders that differ from the values."""
    found = []
    for line, template, values in templates(source):
        if isinstance(template, ast.Constant) and isinstance(template.value, str):
            placeholders = {name for _, name, _, _ in Formatter().parse(template.value) if name is not None}
            # Without values the text is verbatim, and may contain JSON.
            if placeholders != values and (values or any(map(str.isidentifier, placeholders))):
                found.append(line)
        elif values:
            found.append(line)
    return found


def test_every_template_has_exactly_its_values() -> None:
    """A message with named values has a literal template with exactly these placeholders."""
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / "graphql_api").rglob("*.py"))
        if path.parent.name != "errors" and (lines := invalid_messages(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        'InvalidValue("{a}.")',
        'InvalidValue("Text.", a=1)',
        'InvalidValue("{a} {b}.", a=1)',
        'InvalidValue(f"{x} {{a}}.", a=1)',
        'errors.InvalidValue("{a}." + x, a=1)',
        'Message("{argument}.", argument=1, other=2)',
        'problem.rephrase("Text.")',
        'VersionConflict("{version}.", version=1)',
    ],
)
def test_invalid_templates_are_detected(source: str) -> None:
    """The check above detects each of these mistakes."""
    assert invalid_messages(source) == [1]


def test_constructors_pass_values_on() -> None:
    """Every class with its own constructor passes named values on."""
    assert LimitExceeded("{a}.", limit=1, a="b").message == "b."
    assert VersionConflict("{a}.", version=1, a="b").localized(UpperCaseResolver()).argument == "--expected_version"
    assert ConditionFailed("{a}.", position=1, old=None, a="b").message == "b."
    assert Unauthenticated("{a}.", a="b").message == "b."


def test_without_suggestions() -> None:
    """Only suggestions are removed from a message. Data that looks like a suggestion is unchanged."""
    data = "x Did you mean 'y'?"
    problem = InvalidValue("{value} is no color.{hint}", value=data, hint=suggest("gren", ["green"]))
    assert problem.message == f"{data} is no color. Did you mean 'green'?"
    assert problem.without_suggestions().message == f"{data} is no color."
    assert problem.localized(UpperCaseResolver()).message == f"{data} is no color. Did you mean 'green'?"
    assert problem.localized(UpperCaseResolver()).without_suggestions().message == f"{data} is no color."
