"""Links of Markdown pages and their targets."""

import re
from pathlib import Path
from urllib.parse import unquote

FENCED = re.compile(r"^(```|~~~).*?^\1[`~]*\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]\n]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]\n]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
ABSOLUTE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def prose(page: Path) -> str:
    """Return a page without fenced code blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def relative_links(page: Path) -> list[str]:
    """Return the links of a page to files and headings of the repository."""
    links = (match[1] or match[2] for match in LINK.finditer(CODE.sub("", prose(page))))
    return [link for link in links if not ABSOLUTE.match(link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub spells them."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeated = (f"{plain}-{count}" for count in range(1, len(found) + 1))
        found.add(plain if plain not in found else next(name for name in repeated if name not in found))
    return found


def is_broken(page: Path, link: str, root: Path) -> bool:
    """Return whether a relative link leads out of the repository, to a missing file, or to a missing heading."""
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(root.resolve()):
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)
