"""Messages as templates, with references to the names that Python and GraphQL write differently.

Errors resolve them for the audience that reads them. A message never contains such a name as plain text. So names are
replaced where they are names, and data never changes. References hold Python names, and type names of entities.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class NameResolver:
    """The names of properties, arguments and searches as one audience writes them: by default, as Python does."""

    def property_name(self, name: str) -> str:
        """Return the name of a property, from its Python name."""
        return name

    def argument_name(self, name: str) -> str:
        """Return the name of an argument that is no property, from its Python name."""
        return name

    def search_name(self, entity: str, index: str) -> str:
        """Return the name of a search, from the type name of its entity and the attribute that declares the index."""
        return f"{entity}.{index}"

    def field_path(self, path: "FieldPath") -> str:
        """Return the path to a field inside a record."""
        return ".".join(path.location) or "record"

    def field_message(self, path: "FieldPath", message: str) -> str:  # noqa: ARG002 - for other audiences
        """Return a validation message about a field, with enum members as the audience writes them."""
        return message


PYTHON_RESOLVER = NameResolver()


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
    entity: str | None = None

    def resolve(self, names: NameResolver) -> str:
        name = names.property_name(self.name)
        return name if self.entity is None else f"{self.entity}.{name}"


@dataclass(frozen=True, slots=True)
class ArgumentName(Localizable):
    """An argument that is no property, such as `expected_version`."""

    name: str

    def resolve(self, names: NameResolver) -> str:
        return names.argument_name(self.name)


@dataclass(frozen=True, slots=True)
class SearchName(Localizable):
    """A search of an index or union: `User.by_first_name` in Python, `userByFirstName` in GraphQL."""

    entity: str
    index: str

    def resolve(self, names: NameResolver) -> str:
        return names.search_name(self.entity, self.index)


@dataclass(frozen=True, slots=True)
class FieldPath(Localizable):
    """A field inside a record: a property, followed by the path into its value."""

    entity: str
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


class Message(Localizable):
    """A text made of a template and named values: `Message("{property} is null.", property=PropertyName("name"))`.

    Values are names, other messages, or data. Data is inserted unchanged: braces in it have no meaning. Without named
    values the template itself is the text.
    """

    __slots__ = ("_template", "_values")

    def __init__(self, template: str, /, **values: object) -> None:
        self._template = template
        self._values = values

    def resolve(self, names: NameResolver) -> str:
        if not self._values:
            return self._template
        return self._template.format_map(
            {
                name: value.resolve(names) if isinstance(value, Localizable) else value
                for name, value in self._values.items()
            }
        )

    def without_suggestions(self) -> "Message":
        """Return the message for an audience that must not learn which names exist."""
        values = {name: "" if isinstance(value, Suggestion) else value for name, value in self._values.items()}
        nested = {name: value.without_suggestions() for name, value in values.items() if isinstance(value, Message)}
        return Message(self._template, **{**values, **nested})

    def with_value(self, name: str, value: object) -> "Message":
        """Return the message with another value of one name, also in messages that it contains."""
        values = {
            key: value if key == name else part.with_value(name, value) if isinstance(part, Message) else part
            for key, part in self._values.items()
        }
        return Message(self._template, **values)


class Suggestion(str):
    """The closest known name, as a sentence at the end of a message, or nothing."""

    __slots__ = ()


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the closest known name, or an empty text."""
    close = get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def suggest(wrong: str, known: Iterable[str]) -> str:
    """Return the closest known name for a message that clients read. They see it only if suggestions are on."""
    return Suggestion(nearest(wrong, known))
