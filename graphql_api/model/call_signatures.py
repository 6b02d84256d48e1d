"""What type checkers know of the arguments of searches, reads and updates: each index and entity declares its own.

`IndexRef` and `Entity` accept conditions and properties of any name. Stubs of `shardql stubs` name those of each one.
"""

from collections.abc import Mapping
from typing import Literal, ParamSpec, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")

SortCondition: TypeAlias = T | Mapping[Literal["eq", "prefix", "from", "from_", "to"], T]
"""a condition on a sort property: its exact value, or one kind of condition by name"""


class SearchSignature(Protocol[P, R_co]):
    """An index, with the arguments of its searches."""

    def _search_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class CountSignature(Protocol[P, R_co]):
    """An index, with the arguments of its counts."""

    def _count_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class CreateSignature(Protocol[P, R_co]):
    """An entity, with the arguments of creates."""

    def _create_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class GetSignature(Protocol[P, R_co]):
    """An entity, with the arguments of reads by id."""

    def _get_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class GetBySignature(Protocol[P, R_co]):
    """An entity, with the arguments of reads by a unique value."""

    def _get_by_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class UpdateSignature(Protocol[P, R_co]):
    """An entity, with the arguments of updates."""

    def _update_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class ChangeSignature(Protocol[P, R_co]):
    """An entity, with the arguments of updates in an all-or-none write."""

    def _change_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class DeleteSignature(Protocol[P, R_co]):
    """An entity, with the arguments of deletes."""

    def _delete_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...


class RemoveSignature(Protocol[P, R_co]):
    """An entity, with the arguments of deletes in an all-or-none write."""

    def _remove_arguments(self, *args: P.args, **arguments: P.kwargs) -> R_co: ...
