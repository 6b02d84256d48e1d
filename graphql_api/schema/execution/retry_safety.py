"""Whether an operation is safe to retry after a timeout or a partial failure."""

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
from graphql_api.schema.query_cost import WRITES, field_marks


def deadline_error(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutation_type: GraphQLObjectType | None,
    non_idempotent_started: Sequence[str],
    seconds: float,
) -> ShardQLError:
    """Return the error of an operation that was stopped at its deadline.

    `mutation_type`: the root type of mutations. `non_idempotent_started`: names of generated mutations that have
    started a write that is not idempotent. Custom mutations count as not idempotent.
    """
    timed_out = f"The operation did not end within {seconds:g} seconds"
    custom = (field.name.value for field in _custom_mutations(operation, fragments, mutation_type))
    in_doubt = [*dict.fromkeys([*non_idempotent_started, *custom])]
    if in_doubt:
        were = "was" if len(in_doubt) == 1 else "were"
        return OutcomeUnknown(
            f"{timed_out}, and it is unknown whether {' and '.join(in_doubt)} {were} executed. "
            "Read the current state before you send it again. A mutation with an idempotency key is safe to retry."
        )
    return DeadlineExceeded(f"{timed_out}. Request less, or try again.")


def is_retry_safe(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutation_type: GraphQLObjectType | None,
    non_idempotent_completed: Sequence[str],
    failed_roots: Collection[str | int],
) -> bool:
    """Return whether an operation that failed in part can run again without a second effect.

    `non_idempotent_completed`: names of generated mutations that have completed a write that is not idempotent.
    `failed_roots`: response names of the root fields that have failed. A custom mutation that failed reports itself
    whether it is safe to retry.
    """
    custom = (field.alias or field.name for field in _custom_mutations(operation, fragments, mutation_type))
    return not non_idempotent_completed and all(name.value in failed_roots for name in custom)


def _custom_mutations(
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    mutation_type: GraphQLObjectType | None,
) -> Iterator[FieldNode]:
    """Return the fields of an operation that are mutations of the application, not generated ones."""
    if operation.operation is OperationType.MUTATION and mutation_type is not None:
        for field in _fields(operation.selection_set, fragments):
            definition = mutation_type.fields.get(field.name.value)
            if definition is not None and WRITES not in field_marks(definition):
                yield field


def _fields(selection_set: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode]) -> Iterator[FieldNode]:
    """Return the selected fields, including those in fragments."""
    for selection in selection_set.selections:
        if isinstance(selection, FieldNode):
            yield selection
        elif isinstance(selection, InlineFragmentNode):
            yield from _fields(selection.selection_set, fragments)
        elif isinstance(selection, FragmentSpreadNode):
            yield from _fields(fragments[selection.name.value].selection_set, fragments)
