"""Messages as a template and named values, so that names are resolved for each audience and data is never rewritten."""

from collections.abc import Iterable
from difflib import get_close_matches

from graphql_api.errors.name_references import Localizable, NameResolver, Suggestion


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


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the closest known name, or an empty text."""
    close = get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def suggest(wrong: str, known: Iterable[str]) -> Suggestion:
    """Return the closest known name for a message that clients read. They see it only if suggestions are on."""
    return Suggestion(nearest(wrong, known))
