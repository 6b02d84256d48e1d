"""Records to load, and something that takes them as a store would."""

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
    """Something with few values."""

    RED = "red"
    BLUE = "blue"


class Payment(Entity):
    """A record with a property of every kind that JSON has no literal for."""

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
Answer = Callable[[Payment], ShardQLError | None]


@dataclass
class Sink:
    """Takes records as a store would, and fails as it is told to."""

    answer: Answer = lambda _: None
    before: Callable[[int], None] = lambda _: None
    """is called with the number of each write; what it raises fails the write as a whole"""
    batches: list[list[str]] = field(default_factory=list)
    records: dict[str, Payment] = field(default_factory=dict)

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Writes records each by itself."""
        await asyncio.sleep(0)
        payments = [record for record in records if isinstance(record, Payment)]
        self.batches.append([payment.payment_id for payment in payments])
        self.before(len(self.batches))
        results = [self.answer(payment) for payment in payments]
        for payment, problem in zip(payments, results, strict=True):
            if problem is None:
                self.records[payment.payment_id] = payment
        return results


def line(number: int, **more: Any) -> str:
    """A good line."""
    return json.dumps({"paymentId": f"p{number}", **more})


def rejects_of(file: Path) -> list[dict[str, Any]]:
    """What stands in the file of rejected lines."""
    kept = file.with_name(f"{file.name}.rejected")
    return [json.loads(text) for text in kept.read_bytes().splitlines()] if kept.exists() else []
