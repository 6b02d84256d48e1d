"""The complexity of inputs: the number of elements that their conversion visits, counted before it begins.

Elements are values, the fields that input types declare (a conversion visits omitted ones too), and blocks of text.
Inside a JSON scalar, every object, list and member is an element.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import graphql

from graphql_api.errors import InputTooLarge
from graphql_api.schema.types.generated_fields import ListLimit, list_limit

CHARACTERS_PER_ELEMENT = 100
OTHER_CHARACTERS_PER_ELEMENT = 25
"""of texts with characters outside ASCII, whose canonical form takes longer"""
_LIGATURE, _LIGATURE_CHARACTERS = "\ufdfa", 18
"""the character with the longest decomposition; that of others has up to 8 characters"""


class _Part(NamedTuple):
    """A value of an input, before its conversion."""

    value: Any
    """a JSON value, or the node of a literal"""
    type: Any
    name: str
    """of the argument or input field"""
    limit: ListLimit | None = None
    """the limit on the items of the argument or input field"""


class InputComplexity:
    """A counter for the inputs of one operation. It visits each variable once, and stops at its limit."""

    def __init__(
        self,
        schema: graphql.GraphQLSchema,
        operation: graphql.OperationDefinitionNode,
        variables: Mapping[str, Any],
        max_elements: int,
    ) -> None:
        self._max_elements = max_elements
        self._values = variables
        self._variables = {
            name: _Part(variables.get(name, one.default_value), graphql.type_from_ast(schema, one.type), name)
            for one in operation.variable_definitions or ()
            for name in (one.variable.name.value,)
        }
        self._counted: dict[str, int] = {}
        """Elements of variables."""

    def of_variables(self) -> int:
        """Return the elements of all variables."""
        return sum(self._of_variable(name, name) for name in self._variables)

    def of_arguments(self, field: graphql.FieldNode, definition: graphql.GraphQLField) -> int:
        """Return the elements of a field's arguments, which are converted for each object that has the field."""
        arguments = ((node.value, node.name.value) for node in field.arguments or ())
        return sum(
            self._count(_Part(value, declared.type, name, list_limit(declared)), name)
            for value, name in arguments
            if (declared := definition.args.get(name)) is not None
        )

    def _of_variable(self, name: str, argument: str) -> int:
        if name not in self._counted:
            self._counted[name] = self._count(self._variables[name], argument)
        return self._counted[name]

    def _count(self, part: _Part, argument: str) -> int:
        """Return the elements of an input. Errors name the argument that contains it."""
        elements, pending = 0, [part]
        while pending:
            part = pending.pop()
            if isinstance(part.value, graphql.VariableNode):
                name = part.value.name.value
                elements += 1 + (self._of_variable(name, argument) if name in self._variables else 0)
                part = part._replace(value=self._values.get(name), type=None)
            else:
                part = part._replace(value=_content(part.value))
                own, below = _elements(part)
                elements += own
                pending.extend(below)
            if part.limit is not None and isinstance(part.value, list):
                part.limit.check(len(part.value), part.name, argument)
            if elements + len(pending) > self._max_elements:
                raise too_large(self._max_elements)
        return elements


def _content(value: Any) -> Any:
    """Return the items, the fields or the text of a literal, and any other value unchanged."""
    match value:
        case graphql.ListValueNode():
            return [*value.values]
        case graphql.ObjectValueNode():
            return {field.name.value: field.value for field in value.fields}
        case graphql.StringValueNode():
            return value.value
    return value


def text_elements(text: str) -> int:
    """Return the elements of a text, in addition to the value itself."""
    if text.isascii():
        return len(text) // CHARACTERS_PER_ELEMENT
    return (len(text) + (_LIGATURE_CHARACTERS - 1) * text.count(_LIGATURE)) // OTHER_CHARACTERS_PER_ELEMENT


def _elements(part: _Part) -> tuple[int, Iterable[_Part]]:
    """Return the number of elements that a value is by itself, and the values in it."""
    value, type_ = part.value, graphql.get_nullable_type(part.type)
    if isinstance(value, str):
        return 1 + text_elements(value), ()
    if isinstance(value, list):
        below = type_.of_type if graphql.is_list_type(type_) else type_
        return 1, (_Part(item, below, part.name) for item in value)
    if not isinstance(value, dict):
        return 1, ()
    named = graphql.get_named_type(type_)
    if not graphql.is_input_object_type(named):
        return 1, (_Part(item, named, part.name) for item in value.values())
    declared = named.fields
    fields = (
        _Part(item, declared[key].type, key, list_limit(declared[key]))
        for key, item in value.items()
        if key in declared
    )
    return 1 + len(declared), fields


def too_large(limit: int, found: int | None = None) -> InputTooLarge:
    """Return the error of an operation whose inputs have too many elements."""
    return InputTooLarge(
        f"The inputs of the operation have {'more' if found is None else f'{found:,}'} elements; the limit is "
        f"{limit:,}. They count each time a field uses them. Send less at once.",
        limit=limit,
        found=found,
    )
