"""Projections: pure functions from events to the operations that keep read models."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from graphql_api.errors import InvalidCatalog, InvalidEvent, Violation
from graphql_api.model import Entity, versioned_name
from graphql_api.operations import Delete, Operation, Put, Update
from graphql_api.projections.event_envelopes import Envelope, first_problem

ProjectionFunction = Callable[..., Sequence[Operation]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_EXAMPLE = "def orders(event: OrderPlaced | OrderShipped) -> list[Set | Update | Delete]"
_PASSED = ("stream", "seq")
"""parameters of a function besides the event"""


class Projection:
    """A function that maps events of one source to operations on entities. Create it by the decorator `projection`.

    Calling it calls the function: `order_tracking(OrderPlaced(…))`.
    """

    def __init__(
        self,
        function: ProjectionFunction,
        models: Sequence[type[Entity]],
        source: str,
        *,
        name: str | None = None,
        first_seq: int = 1,
        on_dead_letter: Literal["continue", "stop"] = "continue",
        previous: ProjectionFunction | None = None,
        version: int | None = None,
    ) -> None:
        self.function = function
        self.models = tuple(models)
        self.source = source
        self.name = function.__name__ if name is None else name
        self.first_seq = first_seq
        self.stops = on_dead_letter == "stop"
        declared = max((model.__declaration__.version for model in models), default=1)
        self.version = declared if version is None else version
        """of the records that it writes"""
        self.previous: Projection | None = None
        """the projection of the version before, which applies events until the records of this one are built"""
        if previous is not None:
            options: dict[str, Any] = {"first_seq": first_seq, "on_dead_letter": on_dead_letter}
            self.previous = Projection(previous, models, source, name=self.name, version=self.version - 1, **options)
        self.__doc__ = function.__doc__
        signature = [*inspect.signature(function).parameters]
        self._passed = tuple(part for part in _PASSED if part in signature[1:])
        self.events: Mapping[str, type[BaseModel]] = {}
        """the models of the events that it handles, by type"""
        if problems := [*self._declaration_problems(signature, on_dead_letter)]:
            raise InvalidCatalog([Violation(f"projection {self.name}", None, *problem) for problem in problems])

    @property
    def stored_name(self) -> str:
        """The name in the keys of positions and dead letters, which has the version: `accounts@2`."""
        return versioned_name(self.name, self.version)

    def at_version(self, version: int) -> "Projection | None":
        """Return this projection, or the one of the version before; None if it is for neither of the two."""
        return next((one for one in (self, self.previous) if one is not None and one.version == version), None)

    def __call__(self, event: BaseModel, *, stream: str = "", seq: int | None = None) -> Sequence[Operation]:
        values = {"stream": stream, "seq": self.first_seq if seq is None else seq}
        return self.function(event, **{name: values[name] for name in self._passed})

    def __repr__(self) -> str:
        return f"<projection {self.name} of {self.source}>"

    def operations(self, envelope: Envelope) -> list[Operation]:
        """Return the operations of an event: none if the projection does not handle its type.

        Raise `InvalidEvent` if the event does not fit its model, if the function raises an error, or if it returns
        something else.
        """
        model = self.events.get(envelope.type)
        if model is None:
            return []
        try:
            event = model.model_validate({**envelope.data, "type": envelope.type})
        except ValidationError as problem:
            raise InvalidEvent(f"{envelope.type} does not fit its model: {first_problem(problem)}.") from problem
        try:
            returned = self(event, stream=envelope.stream, seq=envelope.seq)
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
            raise InvalidEvent(f"{self.name} raised an error for {envelope.type}: {reason}") from problem
        return [*self._checked(returned)]

    def _checked(self, returned: Any) -> Iterator[Operation]:
        allowed = " or ".join(model.__name__ for model in self.models)
        if not isinstance(returned, Sequence):
            raise InvalidEvent(f"{self.name} returned {type(returned).__name__}: return a list of operations.")
        for operation in returned:
            if not isinstance(operation, Put | Update | Delete):
                kind = type(operation).__name__
                raise InvalidEvent(f"{self.name} returned {kind} in its list: return Set, Update and Delete only.")
            if operation.entity not in self.models:
                name = operation.entity.__name__
                raise InvalidEvent(f"{self.name} returned an operation on {name}: it may only write {allowed}.")
            yield operation

    # --- the declaration ---------------------------------------------------------------------------------------

    def _declaration_problems(self, signature: Sequence[str], on_dead_letter: str) -> Iterator[tuple[str, str]]:
        """Yield each problem of the declaration, with its remedy."""
        for what, text in (("name", self.name), ("source", self.source)):
            if not _NAME.fullmatch(text):
                yield f"has the {what} {text!r}.", "Use up to 100 ASCII letters, digits, - and _, a letter first."
        if not self.models:
            yield "writes no entity.", f'Name the entities that it writes: @projection(Order, source="{self.source}").'
        if len({model.__declaration__.version for model in self.models}) > 1:
            names = ", ".join(model.__name__ for model in self.models)
            yield f"writes {names}, which declare different versions.", "Give them the same version=."
        if self.version < 1:
            yield "has previous=, and its entities declare no version.", "Declare version=2 of them, or omit previous=."
        if on_dead_letter not in {"continue", "stop"}:
            yield f"has on_dead_letter={on_dead_letter!r}.", 'Use "continue" or "stop".'
        if self.first_seq < 0:
            yield f"has first_seq={self.first_seq}.", "Use 0 or more."
        if inspect.iscoroutinefunction(self.function):
            yield "is asynchronous, and projections are pure.", "Write a plain function, without I/O."
        unknown = [name for name in signature[1:] if name not in _PASSED]
        if unknown:
            yield f"has the parameter {unknown[0]}.", "It may take the event, stream and seq."
        if not signature:
            yield "takes no event.", f"Declare its events: {_EXAMPLE}."
        else:
            yield from self._read_event_models(signature[0])

    def _read_event_models(self, parameter: str) -> Iterator[tuple[str, str]]:
        try:
            annotation = get_type_hints(self.function).get(parameter)
        except NameError as problem:
            yield f"has annotations that cannot be resolved: {problem}.", "Declare the events at the top of a module."
            return
        is_union = get_origin(annotation) in {Union, UnionType}
        events: dict[str, type[BaseModel]] = {}
        for model in get_args(annotation) if is_union else [annotation]:
            types = _types_of(model)
            if not types:
                name = getattr(model, "__name__", model)
                remedy = f'Declare a pydantic model with type: Literal["{name}"] = "{name}".'
                yield f"takes {name}, which is no event model.", remedy if model is not None else f"Write {_EXAMPLE}."
            for type_name in types:
                assert isinstance(model, type), "only classes have types"
                if events.setdefault(type_name, model) is not model:
                    yield f"takes two models of the type {type_name}.", "Give each event its own type."
        self.events = events


def _types_of(model: Any) -> Sequence[str]:
    """Return the values of the discriminator `type` of an event model; none if it is no event model."""
    if not isinstance(model, type) or not issubclass(model, BaseModel) or "type" not in model.model_fields:
        return ()
    annotation = model.model_fields["type"].annotation
    return [str(one) for one in get_args(annotation)] if get_origin(annotation) is Literal else ()


def projection(
    *models: type[Entity],
    source: str,
    name: str | None = None,
    first_seq: int = 1,
    on_dead_letter: Literal["continue", "stop"] = "continue",
    previous: ProjectionFunction | None = None,
) -> Callable[[ProjectionFunction], Projection]:
    """Declare a projection: `@projection(OrderTracking, source="orders")` on a pure function of an event.

    The function has the event as its first parameter, and may have `stream` and `seq`. It returns a list of `Set`,
    `Update` and `Delete` on the `models`. `name` identifies it in the table, by default the name of the function.
    `first_seq`: the number of the first event of each stream. `on_dead_letter`: whether a stream goes on after an
    event that cannot be applied. `previous`: the function for the version of the records before the one that their
    classes declare, until a replay has built that one.
    """

    def declare(function: ProjectionFunction) -> Projection:
        options: dict[str, Any] = {"name": name, "first_seq": first_seq, "on_dead_letter": on_dead_letter}
        return Projection(function, models, source, previous=previous, **options)

    return declare


def names_of(projections: Iterable[Projection]) -> str:
    """Return the names of projections for messages."""
    return ", ".join(one.name for one in projections) or "none"
