"""Whether an operation may be sent again as it is, that did not end in time or of which a part has failed."""

from collections.abc import Collection, Iterator, Mapping, Sequence

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
from graphql_api.schema.query_cost import WRITES, marks_of


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
    own = (field.name.value for field in _own_fields(operation, fragments, mutations))
    doubtful = [*dict.fromkeys([*begun_once, *own])]
    if doubtful:
        were = "was" if len(doubtful) == 1 else "were"
        return OutcomeUnknown(
            f"{late}, and nobody knows whether {' and '.join(doubtful)} {were} carried out: look at what stands "
            "there before you send it again. Under an idempotency key it could be sent again as it is."
        )
    return DeadlineExceeded(f"{late}: ask for less, or try again.")


def may_come_again(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutations: GraphQLObjectType | None,
    done_once: Sequence[str],
    failed: Collection[str | int],
) -> bool:
    """Whether nothing is done twice if an operation is sent again of which a part has failed.

    `done_once`: generated mutations that have written what must not be written twice. `failed`: the fields at the root
    that have failed, by their names in the answer; what own ones have done then their errors say themselves.
    """
    own = (field.alias or field.name for field in _own_fields(operation, fragments, mutations))
    return not done_once and all(called.value in failed for called in own)


def _own_fields(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutations: GraphQLObjectType | None,
) -> Iterator[FieldNode]:
    """The mutations of one's own in an operation."""
    if operation.operation is OperationType.MUTATION and mutations is not None:
        for field in _fields(operation.selection_set, fragments):
            definition = mutations.fields.get(field.name.value)
            if definition is not None and WRITES not in marks_of(definition):
                yield field


def _fields(selected: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode]) -> Iterator[FieldNode]:
    """The fields that are selected, through fragments too."""
    for selection in selected.selections:
        if isinstance(selection, FieldNode):
            yield selection
        elif isinstance(selection, InlineFragmentNode):
            yield from _fields(selection.selection_set, fragments)
        elif isinstance(selection, FragmentSpreadNode):
            yield from _fields(fragments[selection.name.value].selection_set, fragments)
