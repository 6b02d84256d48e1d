"""Stubs of the modules that declare a catalog's entities: the source without bodies, with the calls of each entity.

A stub replaces its module for type checkers, so it keeps every declaration of the source unchanged.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import indent
from token import COMMENT
from tokenize import generate_tokens
from types import ModuleType
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.model import Catalog, EntitySpec, capitalized
from graphql_api.ops.call_stubs import CallStubs
from graphql_api.ops.type_names import TypeNames, module_alias

_DECLARATIONS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign)
_IGNORE = re.compile(r"# *(type|pyright): *ignore")
_BLOCKS = (ast.For, ast.While, ast.With, ast.Match)
_SETTINGS = (  # The calls of one entity override those of any entity, which take arguments of any name.
    '# mypy: disable-error-code="override, explicit-override, mutable-override"',
    "# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false",
    "# pyright: reportUnusedImport=false",
)
_NO_BODY: list[ast.stmt] = [ast.Expr(ast.Constant(...))]


@dataclass(frozen=True)
class StubModule:
    """The stub of one module."""

    module: str
    source: Path
    text: str

    @property
    def is_installed(self) -> bool:
        """Whether the module belongs to an installed package, whose folder is not the application's."""
        return not {"site-packages", "dist-packages"}.isdisjoint(self.source.parts)

    def beside(self) -> Path:
        """Return the path next to the module, where type checkers find the stub without settings."""
        return self.source.with_suffix(".pyi")

    def below(self, folder: Path) -> Path:
        """Return the path in a folder of stubs."""
        parts = self.module.split(".")
        return (
            folder.joinpath(*parts, "__init__.pyi") if self._is_package else folder.joinpath(*parts).with_suffix(".pyi")
        )

    @property
    def _is_package(self) -> bool:
        return self.source.stem == "__init__"

    def is_written_to(self, path: Path) -> bool:
        """Return whether a file contains this stub, in whatever format."""
        try:
            return ast.dump(ast.parse(path.read_text("utf-8"))) == ast.dump(ast.parse(self.text))
        except (FileNotFoundError, SyntaxError, UnicodeDecodeError):
            return False


def stub_modules(catalog: Catalog, address: str) -> list[StubModule]:
    """Return the stubs of all modules that declare entities of a catalog, by module."""
    entities: dict[str, list[EntitySpec]] = {}
    for entity in catalog.entities.values():
        entities.setdefault(entity.model.__module__, []).append(entity)
    return [_stub(module, entities[module], address) for module in sorted(entities)]


def _stub(name: str, entities: Sequence[EntitySpec], address: str) -> StubModule:
    file = getattr(sys.modules[name], "__file__", None)
    if file is None or not file.endswith(".py") or name == "__main__":
        problem = f"{entities[0].type_name} is declared in {name}, which has no source file that other modules import."
        raise InvalidValue(f"{problem} Declare it in a module.", argument="catalog")
    source = Path(file).resolve()
    text = source.read_text("utf-8")
    by_class = {entity.model.__qualname__: entity for entity in entities}
    writer = _ModuleWriter(sys.modules[name], by_class, _ignore_comments(text))
    return StubModule(name, source, writer.text(ast.parse(text), address))


def _ignore_comments(text: str) -> dict[int, str]:
    """Return the comments by which type checkers ignore an error, by line."""
    tokens = generate_tokens(StringIO(text).readline)
    return {one.start[0]: one.string for one in tokens if one.type == COMMENT and _IGNORE.match(one.string)}


class _ModuleWriter:
    """Writes the stub of one module from its syntax tree."""

    def __init__(self, module: ModuleType, entities: Mapping[str, EntitySpec], comments: Mapping[int, str]) -> None:
        self._entities = entities
        """by class name"""
        self._comments = comments
        """of the source that ignore an error, by line"""
        self._inherited = {
            (base.__name__, search.attribute)
            for entity in entities.values()
            for search in entity.searches
            for base in entity.model.__mro__
            if search.attribute in vars(base)
        }
        """classes and attributes of declared indexes"""
        attributes = {name for entity in entities.values() for base in entity.model.__mro__ for name in vars(base)}
        properties = {name for entity in entities.values() for name in entity.properties}
        redefined = {name for name in vars(module) if hasattr(builtins, name) and not name.startswith("__")}
        self._types = TypeNames(module.__name__, attributes | properties | redefined)
        self._classes: list[str] = []

    def text(self, tree: ast.Module, address: str) -> str:
        """Return the text of the stub."""
        future = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
        body = "".join(self._declarations([one for one in tree.body if one not in future]))
        imports = [f"import {module} as {module_alias(module)}" for module in sorted(self._types.imports)]
        head = [f"# Generated by `shardql stubs {address}` from {self._types.module}. Do not edit.", *_SETTINGS]
        return "\n".join([*head, *map(ast.unparse, future), *imports, "", body, *self._classes])

    def _declarations(self, body: Iterable[ast.stmt], model: str = "") -> Iterator[str]:
        """Yield what declares names, without the code that only runs. `model`: the class whose body it is."""
        for statement in body:
            if isinstance(statement, _DECLARATIONS) or type(statement).__name__ == "TypeAlias":
                yield f"{self._declaration(statement, model)}{self._comment(statement)}\n"
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                head = ast.unparse(_without_body(statement)).removesuffix("\n    ...")
                yield f"{head}{self._comment(statement)}\n    ...\n"
            elif isinstance(statement, ast.ClassDef):
                yield self._class(statement)
            elif isinstance(statement, ast.If | ast.Try):
                yield self._branches(statement, model)
            elif isinstance(statement, _BLOCKS):
                yield from (f"{name}: {self._types.text(Any)}\n" for name in _assigned_names(statement))

    def _declaration(self, statement: ast.stmt, model: str) -> str:
        """Return a declaration. An index that entities inherit becomes a class variable, which they may narrow."""
        names = [(model, name) for name in _assigned_names(statement)]
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call) and not self._inherited.isdisjoint(names):
            kind = f"{self._types.imported('typing', 'ClassVar')}[{ast.unparse(value.func)}]"
            return f"{names[0][1]}: {kind} = {ast.unparse(value)}"
        return ast.unparse(statement)

    def _comment(self, statement: Any) -> str:
        """Return the comment that ignores an error of a declaration, which its stub repeats."""
        last = statement.body[0].lineno - 1 if getattr(statement, "body", None) else statement.end_lineno
        lines = range(statement.lineno, max(last, statement.lineno) + 1)
        return next((f"  {self._comments[line]}" for line in lines if line in self._comments), "")

    def _branches(self, statement: ast.If | ast.Try, model: str) -> str:
        """Return a conditional declaration, such as an import for type checkers; nothing if it declares nothing."""
        parts = [("if " + ast.unparse(statement.test) if isinstance(statement, ast.If) else "try", statement.body)]
        if isinstance(statement, ast.Try):
            parts += [(ast.unparse(one).partition(":\n")[0], one.body) for one in statement.handlers]
        parts += [("else", statement.orelse)]
        if isinstance(statement, ast.Try):
            parts += [("finally", statement.finalbody)]
        texts = [(head, "".join(self._declarations(body, model))) for head, body in parts if body]
        if not any(text for _, text in texts):
            return ""
        return "".join(f"{head}:\n{indent(text or 'pass', '    ')}\n" for head, text in texts)

    def _class(self, statement: ast.ClassDef) -> str:
        head = ast.unparse(_copy(statement, body=_NO_BODY)).removesuffix("\n    ...") + self._comment(statement)
        entity = self._entities.get(statement.name)
        if entity is None:
            members = "".join(self._declarations(statement.body, statement.name))
        else:
            declared = (one for one in statement.body if not self._is_search(entity, one))
            members = "".join(self._declarations(declared)) + self._calls(entity, statement)
        return f"{head}\n{indent(members or '...', '    ')}\n"

    def _is_search(self, entity: EntitySpec, statement: ast.stmt) -> bool:
        names = {search.attribute for search in entity.searches}
        return isinstance(statement, ast.Assign | ast.AnnAssign) and not names.isdisjoint(_assigned_names(statement))

    def _calls(self, entity: EntitySpec, statement: ast.ClassDef) -> str:
        """Return the indexes of an entity and the arguments of its calls. The classes of its indexes follow later."""
        stubs, lines = CallStubs(entity, self._types), []
        self._classes.append(stubs.option_types())
        for search in entity.searches:
            owner = next(base for base in entity.model.__mro__ if search.attribute in vars(base))
            if owner.__module__ != self._types.module and search.attribute != "by_id":
                continue  # The declaration that it inherits cannot be narrowed.
            name = f"_{statement.name}{''.join(map(capitalized, search.attribute.split('_')))}"
            self._classes.append(stubs.index_class(search, name))
            lines.append(f"{search.attribute}: {self._types.imported('typing', 'ClassVar')}[{name}]\n")
        return "".join(lines) + stubs.entity_methods()


def _assigned_names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement assigns, in order."""
    names = (one for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return [*dict.fromkeys(name.id for name in names)]


def _without_body(statement: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """Return the declaration of a function. That of an asynchronous generator is no coroutine."""
    is_generator = any(isinstance(one, ast.Yield) for one in _own_nodes(statement))
    kind = ast.FunctionDef if is_generator else type(statement)
    return kind(**{**vars(statement), "body": _NO_BODY})


def _own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a statement, without those of functions and classes inside it."""
    for node in ast.iter_child_nodes(statement):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(node)


def _copy(statement: Any, **changes: Any) -> Any:
    return type(statement)(**{**vars(statement), **changes})
