"""What verifications and comparisons print, report as JSON lines, and count in metrics."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column

from graphql_api.cli.terminal_output import new_table
from graphql_api.storage import Key
from graphql_api.verification import (
    ComparisonResult,
    Finding,
    ShardDigest,
    VerificationResult,
    readable_item,
)

_SHOWN = 10
"""findings that are printed"""
_OTHER_SHARDS = "–"


class Outcome(ABC):
    """What one pass over a store, or over two, has found."""

    @property
    @abstractmethod
    def items(self) -> int:
        """Return the number of items that were read."""

    @property
    @abstractmethod
    def unsettled(self) -> Sequence[Key]:
        """Return the items that writers changed at every look."""

    @property
    @abstractmethod
    def remaining(self) -> Mapping[str, int]:
        """Return the number of findings that were not repaired, by kind."""

    @property
    def repaired(self) -> Mapping[str, int]:
        """Return the number of findings that were repaired, by kind."""
        return {}

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Return everything that was found."""

    @abstractmethod
    def report_lines(self) -> Iterator[dict[str, Any]]:
        """Yield one map for each finding."""

    @abstractmethod
    def print(self, console: Console, report: Path | None) -> None:
        """Print the outcome. `report`: the file with all findings."""

    @property
    def summary(self) -> str:
        """Return one line about the findings."""
        found = ", ".join(f"{kind} {count:,}" for kind, count in self.remaining.items() if count)
        restored = ", ".join(f"{kind} {count:,}" for kind, count in self.repaired.items() if count)
        parts = [f"{self.items:,} items read", f"findings: {found}" if found else "no findings"]
        parts += [f"repaired: {restored}"] if restored else []
        parts += [f"unsettled items: {len(self.unsettled):,}"] if self.unsettled else []
        return "; ".join(parts)

    def print_findings(self, console: Console, lines: Sequence[str], report: Path | None) -> None:
        """Print the first findings, and where to find the others."""
        for line in lines[:_SHOWN]:
            console.print(f"! {line}", soft_wrap=True)
        for key in self.unsettled[:_SHOWN]:
            console.print(f"? {readable_item(key)}: writers changed it at every look, so it was not verified.")
        if len(lines) > _SHOWN:
            listed = f"see {report}" if report is not None else "--report FILE lists all of them"
            console.print(f"{len(lines) - _SHOWN:,} more findings; {listed}.")


@dataclass(slots=True)
class VerificationOutcome(Outcome):
    """The outcome of a verification."""

    result: VerificationResult

    @property
    def items(self) -> int:
        return self.result.items

    @property
    def unsettled(self) -> Sequence[Key]:
        return self.result.unsettled

    @property
    def remaining(self) -> Mapping[str, int]:
        return {damage.label: count for damage, count in self.result.remaining.items()}

    @property
    def repaired(self) -> Mapping[str, int]:
        return {damage.label: count for damage, count in self.result.repaired.items()}

    def as_json(self) -> dict[str, Any]:
        return {
            "items": self.result.items,
            "shards": [_shard_as_json(one) for one in self.result.shards],
            "remaining": dict(self.remaining),
            "repaired": dict(self.repaired),
            "findings": [*self.report_lines()],
            "unsettled": [[*key] for key in self.result.unsettled],
            "notVerified": [*self.result.left_out],
        }

    def report_lines(self) -> Iterator[dict[str, Any]]:
        for one in self.result.findings:
            other = {} if one.other is None else {"other": [*one.other]}
            remedy = {"remedy": one.damage.remedy} if one.damage.remedy and not one.is_derivable else {}
            yield {
                "damage": one.damage.label,
                "record": [*one.record],
                "reason": one.reason,
                "elements": [*one.elements],
                **other,
                "isDerivable": one.is_derivable,
                "isRepaired": one.is_repaired,
                **remedy,
            }

    def print(self, console: Console, report: Path | None) -> None:
        if self.result.shards:
            rows = [(one.head, one.shard or _OTHER_SHARDS, f"{one.items:,}", one.text) for one in self.result.shards]
            console.print(new_table(["items of", "shard", Column("items", justify="right"), "digest"], rows))
        left = [one for one in self.result.findings if not one.is_repaired]
        console.print(f"{self.summary}.", soft_wrap=True)
        self.print_findings(console, [f"{one.damage.label}: {one}" for one in left], report)
        self._print_remedies(console, left)
        for sentence in self.result.left_out:
            console.print(f"· {sentence}", soft_wrap=True)

    def _print_remedies(self, console: Console, left: Iterable[Finding]) -> None:
        damages = dict.fromkeys(one.damage for one in left if one.damage.remedy and not one.is_derivable)
        for damage in damages:
            console.print(f"{damage.label} cannot be derived from other data. {damage.remedy}", soft_wrap=True)
        if any(one.is_derivable and not one.is_repaired for one in left):
            console.print("Restore what can be derived with the option --repair.")


@dataclass(slots=True)
class ComparisonOutcome(Outcome):
    """The outcome of a comparison."""

    result: ComparisonResult

    @property
    def items(self) -> int:
        return sum(self.result.items)

    @property
    def unsettled(self) -> Sequence[Key]:
        return self.result.unsettled

    @property
    def remaining(self) -> Mapping[str, int]:
        return {kind.value: count for kind, count in self.result.counts.items()}

    def as_json(self) -> dict[str, Any]:
        first, second = self.result.shards
        return {
            "items": [*self.result.items],
            "shards": [[_shard_as_json(one) for one in shards] for shards in (first, second)],
            "remaining": dict(self.remaining),
            "differences": [*self.report_lines()],
            "unsettled": [[*key] for key in self.result.unsettled],
            "notes": [*self.result.notes],
        }

    def report_lines(self) -> Iterator[dict[str, Any]]:
        for one in self.result.differences:
            attributes = {"attributes": [*one.attributes]} if one.attributes else {}
            yield {"difference": one.kind.value, "record": [*one.record], **attributes}

    def print(self, console: Console, report: Path | None) -> None:
        columns = [Column(name, justify="right") for name in ("first store", "second store")]
        console.print(new_table(["items of", "shard", *columns, "digests"], self._rows()))
        console.print(f"{self.summary}.", soft_wrap=True)
        self.print_findings(console, [f"{one.kind.value}: {one}" for one in self.result.differences], report)
        for sentence in self.result.notes:
            console.print(f"· {sentence}", soft_wrap=True)

    def _rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        first, second = ({(one.head, one.shard): one for one in shards} for shards in self.result.shards)
        for key in sorted(first.keys() | second.keys()):
            one, other = first.get(key), second.get(key)
            counts = [f"{0 if shard is None else shard.items:,}" for shard in (one, other)]
            is_equal = one is not None and other is not None and one.digest == other.digest
            yield key[0], key[1] or _OTHER_SHARDS, counts[0], counts[1], "equal" if is_equal else "different"


def _shard_as_json(shard: ShardDigest) -> dict[str, Any]:
    return {"itemsOf": shard.head, "shard": shard.shard, "items": shard.items, "digest": shard.text}
