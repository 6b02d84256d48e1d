"""References to names that Python and GraphQL write differently. Errors resolve them for the audience that reads them.

A message never contains such a name as plain text. So names are replaced where they are names, and data never changes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol


class NameResolver(Protocol):
    """The names of properties, arguments and searches as one audience writes them."""

    def property_name(self, name: str) -> str:
        """Return the name of a property, from its Python name."""

    def argument_name(self, name: str) -> str:
        """Return the name of an argument that is no property, from its Python name."""

    def search_name(self, entity: str, index: str) -> str:
        """Return the name of a search, from the type name of its entity and the attribute that declares the index."""

    def field_path(self, path: "FieldPath") -> str:
        """Return the path to a field inside a record."""

    def field_message(self, path: "FieldPath", message: str) -> str:
        """Return a validation message about a field, with enum members as the audience writes them."""

    def suggestion(self, text: str) -> str:
        """Return a suggestion, or an empty text for an audience that must not learn which names exist."""


class Localizable(ABC):
    """A part of an error that depends on its audience. `str()` returns it with Python names."""

    @abstractmethod
    def resolve(self, names: NameResolver) -> str:
        """Return the text with the names of an audience."""

    def __str__(self) -> str:
        return self.resolve(PYTHON_RESOLVER)


@dataclass(frozen=True, slots=True)
class PropertyName(Localizable):
    """A property: `first_name`, or `User.first_name` with its entity."""

    name: str
    """the Python name"""
    entity: str | None = None
    """type name of the entity, if the message shows it"""

    def resolve(self, names: NameResolver) -> str:
        name = names.property_name(self.name)
        return name if self.entity is None else f"{self.entity}.{name}"


@dataclass(frozen=True, slots=True)
class ArgumentName(Localizable):
    """An argument that is no property, such as `expected_version`."""

    name: str
    """the Python name"""

    def resolve(self, names: NameResolver) -> str:
        return names.argument_name(self.name)


@dataclass(frozen=True, slots=True)
class SearchName(Localizable):
    """A search of an index or union: `User.by_first_name` in Python, `userByFirstName` in GraphQL."""

    entity: str
    """type name of the entity"""
    index: str
    """attribute of the entity's class that declares the index or union"""

    def resolve(self, names: NameResolver) -> str:
        return names.search_name(self.entity, self.index)


@dataclass(frozen=True, slots=True)
class FieldPath(Localizable):
    """A field inside a record: a property, followed by the path into its value."""

    entity: str
    """type name of the entity"""
    location: tuple[str, ...]
    """Python names, keys of maps and positions in lists; empty for the record as a whole"""

    def resolve(self, names: NameResolver) -> str:
        return names.field_path(self)


@dataclass(frozen=True, slots=True)
class NameList(Localizable):
    """Several names with a separator between them."""

    parts: tuple[Localizable, ...]
    separator: str = " and "

    def resolve(self, names: NameResolver) -> str:
        return self.separator.join(part.resolve(names) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Suggestion(Localizable):
    """The closest known name, as a sentence at the end of a message, or nothing."""

    text: str

    def resolve(self, names: NameResolver) -> str:
        return names.suggestion(self.text)


class _PythonResolver:
    """The names that Python code uses."""

    def property_name(self, name: str) -> str:
        return name

    def argument_name(self, name: str) -> str:
        return name

    def search_name(self, entity: str, index: str) -> str:
        return f"{entity}.{index}"

    def field_path(self, path: FieldPath) -> str:
        return ".".join(path.location) or "record"

    def field_message(self, path: FieldPath, message: str) -> str:  # noqa: ARG002 - as the protocol declares it
        return message

    def suggestion(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class WithoutSuggestions:
    """Resolves names as another resolver does, and drops suggestions."""

    names: NameResolver

    def property_name(self, name: str) -> str:
        return self.names.property_name(name)

    def argument_name(self, name: str) -> str:
        return self.names.argument_name(name)

    def search_name(self, entity: str, index: str) -> str:
        return self.names.search_name(entity, index)

    def field_path(self, path: FieldPath) -> str:
        return self.names.field_path(path)

    def field_message(self, path: FieldPath, message: str) -> str:
        return self.names.field_message(path, message)

    def suggestion(self, text: str) -> str:  # noqa: ARG002 - as the protocol declares it
        return ""


PYTHON_RESOLVER: NameResolver = _PythonResolver()
