"""`docs/reference/verification.md` agrees with the code."""

import re

from graphql_api.verification import Damage, DifferenceKind
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "verification.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table in a section."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [re.findall(r" ([^|]*?) \|", line) for line in section.splitlines() if line.startswith("| `")]


def test_kinds_of_damage() -> None:
    """The table lists each kind of damage in order, with its meaning, and which kinds a repair restores."""
    found = rows("Kinds of damage")
    assert [(kind, meaning) for kind, meaning, _ in found] == [(f"`{one.label}`", one.meaning) for one in Damage]
    unrestored = {kind.strip("`") for kind, _, restored in found if restored == "no"}
    assert all(one.remedy for one in Damage if one.label in unrestored)
    restored = {kind.strip("`") for kind, _, text in found if text.startswith("yes")}
    assert not any(one.remedy for one in Damage if one.label in restored)


def test_kinds_of_differences() -> None:
    """The table lists each kind of difference between two stores."""
    assert [row[0] for row in rows("Comparing two stores")] == [f"`{kind.value}`" for kind in DifferenceKind]
