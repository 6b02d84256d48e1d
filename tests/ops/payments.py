"""Payment records for load tests, and a writer that records what it receives."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from graphql_api import Catalog, Entity, Id, Timestamp, stored
from graphql_api.errors import ShardQLError


class Colour(Enum):
    """A small enum."""

    RED = "red"
    BLUE = "blue"


class Payment(Entity):
    """An entity with a property of every type that has no JSON literal."""

    payment_id: Id[str]
    paid: Timestamp = 0
    amount: Annotated[Decimal, stored("amt")] = Decimal(0)
    weight: float = 0.0
    due: date | None = None
    seen: datetime | None = None
    batch: UUID | None = None
    colour: Colour | None = None
    notes: dict[str, int] | None = None


PAYMENTS = Catalog(Payment)
PAYMENT = PAYMENTS.entity(Payment)
ResultFor = Callable[[Payment], ShardQLError | None]


@dataclass
class RecordingWriter:
    """Stores records in memory, with injected failures."""

    result_for: ResultFor = lambda _: None
    before_write: Callable[[int], None] = lambda _: None
    """called with the number of each write; an exception fails the whole write"""
    batches: list[list[str]] = field(default_factory=list)
    records: dict[str, Payment] = field(default_factory=dict)

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Writes each record independently."""
        await asyncio.sleep(0)
        payments = [record for record in records if isinstance(record, Payment)]
        self.batches.append([payment.payment_id for payment in payments])
        self.before_write(len(self.batches))
        results = [self.result_for(payment) for payment in payments]
        for payment, problem in zip(payments, results, strict=True):
            if problem is None:
                self.records[payment.payment_id] = payment
        return results


def line(number: int, **more: Any) -> str:
    """A valid line of a load file."""
    return json.dumps({"paymentId": f"p{number}", **more})


def rejects_of(file: Path) -> list[dict[str, Any]]:
    """The entries of the file of rejected lines."""
    kept = file.with_name(f"{file.name}.rejected")
    return [json.loads(text) for text in kept.read_bytes().splitlines()] if kept.exists() else []
