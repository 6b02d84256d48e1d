"""A catalog for hostile requests: derived text, a property of every kind of scalar, and child lists."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from graphql_api import Catalog, Created, Entity, HasMany, Id, Index, Timestamp, canonical, derived


class User(Entity):
    """A user."""

    user_id: Id[str]
    created: Created[Timestamp]
    first_name: str
    first_name_canonical: str = derived(canonical, "first_name")
    visits: int = 0
    height: float = 0.0
    balance: Decimal = Decimal(0)
    token: UUID | None = None
    birthday: date | None = None
    seen: datetime | None = None
    stay: timedelta | None = None
    picture: bytes | None = None
    settings: dict[str, Any] | None = None
    tags: list[str] | None = None
    codes: list[int] | None = None

    by_created = Index(sort="created")
    by_first_name = Index(sort="first_name_canonical")
    by_visits = Index(sort="visits")
    by_height = Index(sort="height")
    by_balance = Index(sort="balance")
    by_birthday = Index(sort="birthday")
    by_seen = Index(sort="seen")
    by_stay = Index(sort="stay")
    emails = HasMany("Email", via="by_user")


class Email(Entity):
    """An e-mail address of a user."""

    email: Id[str]
    user_id: str

    by_user = Index(hash="user_id", sort="email")


catalog = Catalog(User, Email)
USERS = [
    User.model_validate({"user_id": f"u{number:03}", "created": number, "first_name": f"Name {number}"})
    for number in range(500)
]
