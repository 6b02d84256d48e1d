"""Random events of accounts as an unreliable source delivers them, and the plain fold that they must lead to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

Event = dict[str, Any]


@dataclass
class Expected:
    """What projections must leave, computed from the events alone."""

    accounts: dict[str, tuple[str, int, int, str | None]] = field(default_factory=dict)
    """owner, balance, number of writes and IBAN of each account"""
    statements: dict[str, dict[str, tuple[str | None, int]]] = field(default_factory=dict)
    """owner and balance of each account, by time"""
    dead: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: {"accounts": set(), "statements": set()})
    """stream and number of the dead letters, by projection"""
    applied: dict[str, int] = field(default_factory=lambda: {"accounts": 0, "statements": 0})
    waiting: dict[str, int] = field(default_factory=dict)
    """the missing event of each stream that has one"""
    unreadable: int = 0

    def add(self, event: Event) -> None:
        """Fold one event, as the two projections are described."""
        place = event["stream"], event["seq"]
        for name, fold in (("accounts", self._fold_account), ("statements", self._fold_statement)):
            if fold(event["type"], event["data"]):
                self.applied[name] += 1
            else:
                self.dead[name].add(place)

    def _fold_account(self, type: str, data: Event) -> bool:
        id = data.get("accountId", "")
        owner, _, writes, iban = self.accounts.get(id, ("", 0, 0, None))
        if type == "Opened":
            if "owner" not in data:
                return False
            self.accounts[id] = data["owner"], 0, writes + 1, data.get("iban")
        elif type == "Moved":
            if "balance" not in data or data["balance"] == 13 or not writes:
                return False
            self.accounts[id] = owner, data["balance"], writes + 1, iban
        elif type == "Closed":
            self.accounts.pop(id, None)
        elif type == "Copied":
            return bool(data["copies"] <= 98)
        return True

    def _fold_statement(self, type: str, data: Event) -> bool:
        entries = self.statements.setdefault(data.get("accountId", ""), {})
        if type == "Opened":
            if "owner" not in data:
                return False
            entries[data["at"]] = data["owner"], 0
        elif type == "Moved":
            before = [at for at in entries if at <= data["at"]]
            if "balance" not in data or not before:
                return False
            entries[data["at"]] = entries[max(before)][0], data["balance"]
        return True


@dataclass(frozen=True)
class Delivery:
    """Lines of a file of events, and what they must lead to."""

    lines: list[bytes]
    expected: Expected
    events: int


def deliver(random: Random, streams: int, events: int, *, one_log: bool = False, missing: int = 0) -> Delivery:
    """Events of several accounts: repeated, late, interleaved, invalid, and in some streams with a missing one."""
    histories = [[*_account_events(random, f"account-{number}", events // streams)] for number in range(streams)]
    if one_log:
        histories = [_merged(random, histories)]
    for number, history in enumerate(histories):
        for seq, event in enumerate(history, 1):
            event |= {"stream": "" if one_log else f"account-{number}", "seq": seq}
    expected = Expected()
    delivered = []
    for history in histories:
        gap = random.randrange(len(history) - 1) if missing > 0 else len(history)
        missing -= 1
        for event in history[:gap]:
            expected.add(event)
        if gap < len(history):
            expected.waiting[history[0]["stream"]] = gap + 1
        delivered.append(_disordered(random, history[:gap] + history[gap + 1 :]))
    lines = [json.dumps(event).encode() for event in _merged(random, delivered)]
    for number in range(len(lines) // 100):
        expected.unreadable += 1
        lines.insert(random.randrange(len(lines)), b'{"no": %d' % number)
    return Delivery(lines, expected, sum(map(len, histories)))


def _account_events(random: Random, id: str, count: int) -> Iterator[Event]:
    if random.random() < 0.95:
        opened = {"accountId": id, "owner": f"owner of {id}", "at": "2024-000000", "iban": f"{id}-0"}
        yield {"type": "Opened", "data": opened}
    for number in range(1, count):
        at = f"2024-{max(0, number + random.choice((0, 0, 0, -3))):06}"
        opened = {"accountId": id, "owner": f"owner {number}", "at": at, "iban": f"{id}-{number % 3}"}
        moved = {"accountId": id, "balance": 20 + random.randrange(1000), "at": at}
        yield random.choices(
            [
                {"type": "Moved", "data": moved},
                {"type": "Moved", "data": {**moved, "balance": 13}},
                {"type": "Moved", "data": {"accountId": id, "at": at}},
                {"type": "Opened", "data": opened},
                {"type": "Opened", "data": {"accountId": id}},
                {"type": "Closed", "data": {"accountId": id}},
                {"type": "Renamed", "data": {"name": "x"}},
                {"type": "Copied", "data": {"accountId": id, "copies": 200}},
            ],
            [100, 2, 1, 4, 1, 3, 4, 1],
        )[0]


def _disordered(random: Random, history: list[Event]) -> list[Event]:
    """The events of a stream with some of them later than the next ones, and some of them twice."""
    order = {event["seq"]: position + random.choice((0, 0, 0, 0, 3.5)) for position, event in enumerate(history)}
    result: list[Event] = []
    for event in sorted(history, key=lambda event: order[event["seq"]]):
        result.append(event)
        if random.random() < 0.1:
            result.append(random.choice(result[-20:]))
    return result


def _merged(random: Random, histories: list[list[Event]]) -> list[Event]:
    """All events in a random order that keeps the one of each history."""
    turns = [number for number, history in enumerate(histories) for _ in history]
    random.shuffle(turns)
    remaining = [iter(history) for history in histories]
    return [next(remaining[number]) for number in turns]
