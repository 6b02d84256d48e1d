"""The deadline of operations. Of those that were stopped at it: which of their mutations may have run."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import graphql

from graphql_api.errors import DeadlineExceeded, OutcomeUnknown, ShardQLError
from graphql_api.schema.request_context import Context
from graphql_api.schema.types.generated_fields import Mark, field_marks


def within(seconds: float, context: Context) -> asyncio.Timeout:
    """Limit a block to what remains of the deadline of a request."""
    return asyncio.timeout(seconds - context.caller.waited_seconds)


def custom_mutations(
    operation: graphql.OperationDefinitionNode,
    fragments: Mapping[str, graphql.FragmentDefinitionNode],
    mutation_type: graphql.GraphQLObjectType | None,
) -> list[graphql.FieldNode]:
    """Return the fields of an operation that are mutations of the application. They count as not idempotent."""
    if operation.operation is not graphql.OperationType.MUTATION or mutation_type is None:
        return []
    return [
        field
        for field in root_fields(operation.selection_set, fragments)
        if field.name.value in mutation_type.fields  # It is not `__typename`.
        and Mark.WRITES not in field_marks(mutation_type.fields[field.name.value])
    ]


def root_fields(
    selection_set: graphql.SelectionSetNode, fragments: Mapping[str, graphql.FragmentDefinitionNode]
) -> Iterator[graphql.FieldNode]:
    """Yield the root fields of an operation, also those in fragments."""
    for selection in selection_set.selections:
        if isinstance(selection, graphql.FieldNode):
            yield selection
        elif isinstance(selection, graphql.InlineFragmentNode):
            yield from root_fields(selection.selection_set, fragments)
        elif isinstance(selection, graphql.FragmentSpreadNode):
            yield from root_fields(fragments[selection.name.value].selection_set, fragments)


def deadline_error(in_doubt: Sequence[str], seconds: float) -> ShardQLError:
    """Return the error of an operation that was stopped at its deadline; `in_doubt`: not idempotent mutations."""
    timed_out = f"The operation did not end within {seconds:g} seconds"
    if not in_doubt:
        return DeadlineExceeded(f"{timed_out}. Request less, or try again.")
    were = "was" if len(in_doubt) == 1 else "were"
    return OutcomeUnknown(
        f"{timed_out}, and it is unknown whether {' and '.join(in_doubt)} {were} executed. "
        "Read the current state before you send it again. A mutation with an idempotency key is safe to retry."
    )
