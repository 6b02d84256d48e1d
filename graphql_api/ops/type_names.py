"""Names of types in the text of a stub, with the imports that they need."""

import builtins
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

_LITERALS = (str, bytes, bool, int, NoneType)


@dataclass
class TypeNames:
    """Names the types of one module so that no name of the module or of its classes hides them."""

    module: str
    hidden: Collection[str]
    """names that have another meaning in the module, or in the body of one of its entities"""
    imports: set[str] = field(default_factory=set)
    """modules that are imported under a private name"""

    def text(self, annotation: Any) -> str:
        """Return the text of an annotation without metadata; `Any` for what has no name in the module."""
        origin = get_origin(annotation)
        if annotation is None or annotation is NoneType:
            return "None"
        if origin is Annotated:
            return self.text(annotation.__origin__)
        if origin is Union or origin is UnionType:
            return self.union(get_args(annotation))
        if origin is Literal:
            return self._literal(get_args(annotation))
        if hasattr(annotation, "__value__"):  # `type Name = str`, from Python 3.12 on
            return self.text(annotation.__value__)
        if isinstance(origin, type):
            return self._generic(origin, get_args(annotation))
        if isinstance(annotation, type | NewType):
            return self._named(annotation)
        return self.imported("typing", "Any")

    def union(self, members: Collection[Any]) -> str:
        """Return the text of a union without duplicates."""
        return " | ".join(dict.fromkeys(map(self.text, members)))

    def names(self, names: Collection[str]) -> str:
        """Return the text of a type with these texts as its only values."""
        return f"{self.imported('typing', 'Literal')}[{', '.join(map(repr, names))}]"

    def imported(self, module: str, name: str) -> str:
        """Return the name of an object of another module, which is imported."""
        self.imports.add(module)
        return f"{module_alias(module)}.{name}"

    def _literal(self, values: Collection[Any]) -> str:
        if not all(type(value) in _LITERALS for value in values):
            return self.union([*map(type, values)]) if all(isinstance(one, Enum) for one in values) else self.text(Any)
        return f"{self.imported('typing', 'Literal')}[{', '.join(map(repr, values))}]"

    def _generic(self, origin: type, arguments: Collection[Any]) -> str:
        if any(isinstance(argument, list) for argument in arguments):  # the parameters of a callable
            return self.text(Any)
        inner = ("..." if argument is Ellipsis else self.text(argument) for argument in arguments)
        return f"{self._named(origin)}[{', '.join(inner)}]"

    def _named(self, kind: Any) -> str:
        module, name = kind.__module__, getattr(kind, "__qualname__", kind.__name__)
        if not _is_found(kind, module, name):
            return self.text(Any)
        is_plain = module in ("builtins", self.module) and name.partition(".")[0] not in self.hidden
        return name if is_plain else self.imported(module, name)


def module_alias(module: str) -> str:
    """Return the private name of an imported module."""
    return f"_{module.replace('.', '_')}"


def _is_found(kind: Any, module: str, name: str) -> bool:
    """Return whether a type is found by its name in its module."""
    found: Any = builtins if module == "builtins" else sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is kind
