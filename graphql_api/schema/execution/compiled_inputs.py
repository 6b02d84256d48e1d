"""Conversion of variables and arguments, prepared once for each operation and each selected field.

What is unusual or invalid is converted by graphql-core, which also reports its errors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import graphql
from graphql.execution.collect_fields import FieldDetailsList, FragmentDetails
from graphql.execution.executor import to_nodes
from graphql.execution.get_variable_signature import GraphQLVariableSignature, get_variable_signature
from graphql.execution.values import (
    VariableValues,
    VariableValueSource,
    get_argument_values,
    input_is_nested_too_deeply,
)
from graphql.utilities import coerce_input_value

_CONSTANTS = (str, int, float, Enum, type(None))
"""classes of values that several requests may share"""
_MISSING: Any = graphql.Undefined


class _Refused(Exception):
    """graphql-core must convert the inputs."""


# --- variables -------------------------------------------------------------------------------------------------


class _Variable(NamedTuple):
    name: str
    signature: GraphQLVariableSignature
    coerce: Callable[[Any], Any]
    """raises any error for what graphql-core refuses"""
    is_required: bool


class CompiledOperation:
    """One operation of a document without its values: what graphql-core finds again for each execution."""

    def __init__(
        self, schema: graphql.GraphQLSchema, document: graphql.DocumentNode, operation: graphql.OperationDefinitionNode
    ) -> None:
        self.operation = operation
        definitions = [part for part in document.definitions if isinstance(part, graphql.FragmentDefinitionNode)]
        self.fragment_definitions = {one.name.value: one for one in definitions}
        self.fragments = {one.name.value: FragmentDetails(one) for one in definitions}
        # Fragments with variables of their own are an extension that only graphql-core executes.
        self._variables = (
            None
            if any(one.variable_definitions for one in definitions)
            else _compile_variables(schema, operation.variable_definitions or ())
        )

    def variable_values(self, inputs: Mapping[str, Any]) -> VariableValues | None:
        """Return the converted variables; None if graphql-core must convert them."""
        if self._variables is None:
            return None
        sources: dict[str, VariableValueSource] = {}
        coerced: dict[str, Any] = {}
        try:
            for name, signature, coerce, is_required in self._variables:
                value = inputs.get(name, _MISSING)
                if value is not _MISSING:
                    sources[name] = VariableValueSource(signature, value)
                    coerced[name] = coerce(value)
                elif is_required:
                    return None
                else:
                    sources[name] = VariableValueSource(signature)
        except Exception:  # noqa: BLE001 - graphql-core reports it
            return None
        return VariableValues(sources, coerced)


def _compile_variables(
    schema: graphql.GraphQLSchema, nodes: Sequence[graphql.VariableDefinitionNode]
) -> Sequence[_Variable] | None:
    variables = []
    for node in nodes:
        signature = get_variable_signature(schema, node)
        if isinstance(signature, graphql.GraphQLError):
            return None
        # A variable with a default must be provided: graphql-core applies the default.
        is_required = graphql.is_non_null_type(signature.type) or node.default_value is not None
        variables.append(_Variable(signature.name, signature, _coercion(signature.type), is_required))
    return variables


def _coercion(kind: graphql.GraphQLInputType) -> Callable[[Any], Any]:
    bare = graphql.get_nullable_type(kind)
    if not graphql.is_leaf_type(bare):
        return lambda value: _coerce_nested(value, kind)
    is_nullable, coerce_leaf = bare is kind, bare.coerce_input_value

    def coerce(value: Any) -> Any:
        if value is None:
            if is_nullable:
                return None
            raise _Refused
        coerced = coerce_leaf(value)
        if coerced is _MISSING:
            raise _Refused
        return coerced

    return coerce


def _coerce_nested(value: Any, kind: graphql.GraphQLInputType) -> Any:
    if input_is_nested_too_deeply(value, kind):
        raise _Refused
    coerced = coerce_input_value(value, kind)
    if coerced is _MISSING:
        raise _Refused
    return coerced


# --- arguments -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledField:
    """One selected field with a generated resolver, and its arguments without the values of variables."""

    definition: graphql.GraphQLField
    resolve: Callable[..., Any]
    nodes: list[graphql.FieldNode]
    _constants: Mapping[str, Any]
    _variables: Sequence[tuple[str, str, bool, bool]]
    """name of the argument and of the variable; whether null is refused, and whether it may be omitted"""

    def arguments(self, variables: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values of the arguments; None if graphql-core must convert them."""
        values = {**self._constants}
        for name, variable, refuses_null, is_optional in self._variables:
            value = variables.get(variable, _MISSING)
            if value is _MISSING:
                if not is_optional:
                    return None
            elif value is None and refuses_null:
                return None
            else:
                values[name] = value
        return values


def compile_field(
    definition: graphql.GraphQLField, resolve: Callable[..., Any], details: FieldDetailsList
) -> CompiledField | None:
    """Compile the arguments of a selected field; None if graphql-core must convert them."""
    first = details[0]
    given = {one.name.value: one.value for one in first.node.arguments or ()}
    if first.fragment_variable_values:
        return None
    names = {name: one.value.name.value for name, one in _with_variables(first.node).items()}
    if any(name not in names and _has_variable(value) for name, value in given.items()):
        return None
    # Arguments that are literals, or omitted: graphql-core converts them once.
    fixed = {name: one for name, one in definition.args.items() if name not in names}
    try:
        constants = get_argument_values(graphql.GraphQLField(definition.type, args=fixed), first.node)
    except graphql.GraphQLError:
        return None
    if not all(isinstance(value, _CONSTANTS) for value in constants.values()):
        return None
    variables = []
    for name, variable in names.items():
        argument = definition.args[name]
        refuses_null = graphql.is_non_null_type(argument.type)
        is_optional = not refuses_null and argument.default is None and argument.default_value is _MISSING
        variables.append((argument.out_name or name, variable, refuses_null, is_optional))
    return CompiledField(definition, resolve, to_nodes(details), constants, variables)


def _with_variables(node: graphql.FieldNode) -> dict[str, Any]:
    return {one.name.value: one for one in node.arguments or () if isinstance(one.value, graphql.VariableNode)}


def _has_variable(value: graphql.ValueNode) -> bool:
    finder = _VariableFinder()
    graphql.visit(value, finder)
    return finder.found


class _VariableFinder(graphql.Visitor):
    found = False

    def enter_variable(self, *_: Any) -> None:
        self.found = True
