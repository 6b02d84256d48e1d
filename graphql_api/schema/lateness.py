"""What is told of an operation that did not end in time: whether it may be sent again as it is."""

from collections.abc import Iterator, Mapping, Sequence

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLObjectType,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
)

from graphql_api.errors import DeadlineExceeded, OutcomeUnknown, ShardQLError
from graphql_api.schema.cost import WRITES, marks_of


def too_late(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutations: GraphQLObjectType | None,
    begun_once: Sequence[str],
    seconds: float,
) -> ShardQLError:
    """The error of an operation that was stopped after so many seconds.

    `mutations`: their type in the schema. `begun_once`: generated ones that have begun to write what must not be
    written twice. What own ones do nobody knows.
    """
    late = f"The operation did not end within {seconds:g} seconds"
    if operation.operation is OperationType.MUTATION and mutations is not None:
        named = dict.fromkeys(_fields(operation.selection_set, fragments))
        own = [name for name in named if name in mutations.fields and WRITES not in marks_of(mutations.fields[name])]
        doubtful = [*dict.fromkeys([*begun_once, *own])]
        if doubtful:
            were = "was" if len(doubtful) == 1 else "were"
            return OutcomeUnknown(
                f"{late}, and nobody knows whether {' and '.join(doubtful)} {were} carried out: look at what stands "
                "there before you send it again. Under an idempotency key it could be sent again as it is."
            )
    return DeadlineExceeded(f"{late}: ask for less, or try again.")


def _fields(selected: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode]) -> Iterator[str]:
    """The names of the fields that are selected, through fragments too."""
    for selection in selected.selections:
        if isinstance(selection, FieldNode):
            yield selection.name.value
        elif isinstance(selection, InlineFragmentNode):
            yield from _fields(selection.selection_set, fragments)
        elif isinstance(selection, FragmentSpreadNode):
            yield from _fields(fragments[selection.name.value].selection_set, fragments)
