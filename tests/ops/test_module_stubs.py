"""Stubs keep every declaration of a module, and know exactly the arguments that searches accept."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from graphql_api.errors import InvalidValue, UnknownArgument
from graphql_api.examples import issues, orders, users
from graphql_api.model import Catalog, EntitySpec, IndexSpec, UnionSpec
from graphql_api.ops import stub_modules
from graphql_api.ops.call_stubs import CallStubs
from graphql_api.ops.type_names import TypeNames
from graphql_api.query.range_conditions import parse_conditions
from tests.support.all_types_catalog import CATALOG as ALL_TYPES

CATALOGS = [users.catalog, orders.catalog, issues.catalog, ALL_TYPES]
ENTITIES = [entity for catalog in CATALOGS for entity in catalog.entities.values()]

SOURCE = '''
"""A module."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NewType

from graphql_api import Catalog, Created, Entity, Id, Index, RecordKey, Timestamp, server_set

if TYPE_CHECKING:
    from decimal import Decimal
else:
    print("no declaration")
try:
    import missing_module
except ImportError:
    missing_module = None

UserId = NewType("UserId", str)
LIMIT = 5
TEXT: int = "x"  # type: ignore[assignment]  # a comment
if __name__ == "__main__":
    print(LIMIT)
for number in range(3):
    last = number


class State(Enum):
    on = "on"


class Base(Entity):
    created: Created[Timestamp] = server_set()
    by_created = Index(sort="created")

    def age(  # type: ignore[override]
        self, now: int
    ) -> int:
        """Return the age."""
        return now - self.created


class Thing(Base):
    """A thing."""

    id: Id[UserId]
    state: State = State.on
    kind: Literal["a", "b"] = "a"
    int: str | None = None
    size: float | None = None
    parts: dict[str, list[date]] = {}
    other: RecordKey | None = None

    by_state = Index(hash="state", sort=["kind", "size"])

    @property
    def shout(self) -> str:
        return self.kind.upper()


class Plain(dict[str, int]):  # pyright: ignore[reportGeneral]
    value = 3  # no comment for type checkers


async def many(count: int = LIMIT) -> AsyncIterator[int]:
    for one in range(count):
        yield one


async def single() -> int:
    async def inner() -> AsyncIterator[int]:
        yield 1

    return 1


print("loaded")
catalog = Catalog(Thing)
'''


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The stub of the module above."""
    (tmp_path / "declared_things.py").write_text(SOURCE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    module: Any = __import__("declared_things")
    monkeypatch.setitem(sys.modules, "declared_things", module)
    (written,) = stub_modules(module.catalog, "declared_things:catalog")
    return written.text


def declared(text: str) -> dict[str, ast.stmt]:
    """Return the declarations of a module by name."""
    body = ast.parse(text).body
    return {one.name: one for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}


def test_declarations_are_kept_without_bodies(stub: str) -> None:
    """Imports, conditions, constants, classes and functions are those of the source, without code that only runs."""
    lines = stub.splitlines()
    for line in (
        "from __future__ import annotations",
        "if TYPE_CHECKING:",
        "    from decimal import Decimal",
        "except ImportError:",
        "    missing_module = None",
        "UserId = NewType('UserId', str)",
        "LIMIT = 5",
        "TEXT: int = 'x'  # type: ignore[assignment]  # a comment",
        "    def age(self, now: int) -> int:  # type: ignore[override]",
        "class Plain(dict[str, int]):  # pyright: ignore[reportGeneral]",
        "number: _typing.Any",
        "last: _typing.Any",
        "    on = 'on'",
        "    created: Created[Timestamp] = server_set()",
        "    by_created: _typing.ClassVar[Index] = Index(sort='created')",
        "    id: Id[UserId]",
        "    value = 3",
        "catalog = Catalog(Thing)",
    ):
        assert line in lines, line
    assert "print" not in stub
    assert "return" not in stub
    assert "__main__" not in stub


def test_functions_keep_their_kind(stub: str) -> None:
    """An asynchronous generator is declared as a function, because calling it returns no coroutine."""
    functions = declared(stub)
    assert isinstance(functions["many"], ast.FunctionDef)
    assert isinstance(functions["single"], ast.AsyncFunctionDef)
    assert "def many(count: int=LIMIT) -> AsyncIterator[int]:" in stub


def test_types_have_names_that_nothing_hides(stub: str) -> None:
    """Types of other modules are imported under private names, and a property may have the name of a builtin."""
    for line in (
        "        int: str | None = ...,",
        "        size: float | None = ...,",
        "        kind: _typing.Literal['a', 'b'] = ...,",
        "        parts: _builtins.dict[str, list[_datetime.date]] = ...,",
        "        id: UserId,",
        "        created: _builtins.int | None = ...,",
        "        expected_version: _builtins.int | None = ...,",
    ):
        assert line in stub, line


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda one: one.type_name)
def test_stubs_have_exactly_the_conditions_of_a_search(entity: EntitySpec) -> None:
    """The conditions in the stub of a search are those that the error about an unknown argument lists."""
    for search in entity.searches:
        is_union = isinstance(search, UnionSpec)
        index = search.members[0] if isinstance(search, UnionSpec) else search
        parameters = {one.name for one in CallStubs(entity, TypeNames("", ()))._conditions(index, is_union=is_union)}
        accepted = _accepted_arguments(entity, index)
        first = index.sort[0].property if index.sort else None
        if first is None:
            accepted -= {"eq", "prefix", "from_", "to"}
        elif first.kind != "text" and not (index.is_primary and len(index.sort) > 1):
            accepted -= {"prefix"}
        if is_union:
            accepted -= {part.property.name for part in index.sort}
        assert parameters - {"id"} == accepted - {"id"}


def _accepted_arguments(entity: EntitySpec, index: IndexSpec) -> set[str]:
    """Return the arguments that the error about an unknown one lists."""
    required = {part.name: part.column.codec.samples.typical for part in index.required}
    with pytest.raises(UnknownArgument) as raised:
        parse_conditions(entity, index, {**required, "unknown": 1})
    accepted = re.search(r"It takes (.+)\.$", raised.value.message)
    assert accepted is not None
    return {*accepted[1].split(", ")}


def test_a_module_without_source_is_refused() -> None:
    """Entities that are declared in a module without a file have no stub, and the error says so."""
    module: Any = ModuleType("made_up")
    exec("from graphql_api import *\nclass One(Entity):\n    one_id: Id[str]\n", vars(module))  # noqa: S102
    sys.modules["made_up"] = module
    try:
        with pytest.raises(InvalidValue, match="One is declared in made_up, which has no source file"):
            stub_modules(Catalog(module.One), "made_up:catalog")
    finally:
        del sys.modules["made_up"]
