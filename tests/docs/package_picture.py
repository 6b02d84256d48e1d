"""Draw the picture of the packages in docs/architecture.md, from the import graph.

An arrow leads from a package to one that it imports. Arrows that follow from other arrows are left out: if `server`
imports `schema` and `schema` imports `database`, the arrow from `server` to `database` is not drawn.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from grimp import build_graph

from tests.docs.pages import ROOT

PICTURE = ROOT / "docs" / "images" / "packages.svg"
OWN_INTERFACES = ("query.execution", "storage.engines")
"""Sub-packages that are boxes of their own, because other packages import them directly."""
LEFT_OUT = ("clock", "examples", "lazy_exports")

BOX_WIDTH, BOX_HEIGHT = 190, 40
ROW_HEIGHT, COLUMN_WIDTH, BEND_WIDTH = 74, 214, 40
MARGIN = 12

Graph = dict[str, set[str]]


def package_of(module: str) -> str | None:
    """Return the box of a module, or None if it is not drawn."""
    _, _, path = module.partition(".")
    box = next((name for name in OWN_INTERFACES if f"{path}.".startswith(f"{name}.")), path.split(".")[0])
    return box if box and box not in LEFT_OUT else None


def import_graph() -> Graph:
    """Return the packages that each package imports at run time."""
    modules = build_graph("graphql_api", exclude_type_checking_imports=True, cache_dir=None)
    imports: Graph = {box: set() for box in map(package_of, modules.modules) if box}
    for module in modules.modules:
        for imported in modules.find_modules_directly_imported_by(module):
            source, target = package_of(module), package_of(imported)
            if source and target and source != target:
                imports[source].add(target)
    return imports


def reachable(imports: Graph, package: str) -> set[str]:
    """Return every package that a package imports, directly or not."""
    return imports[package].union(*(reachable(imports, target) for target in imports[package]))


def necessary_arrows(imports: Graph) -> Graph:
    """Return the graph without the arrows that follow from other arrows (its transitive reduction)."""
    return {
        package: targets - set().union(*(reachable(imports, target) for target in targets))
        for package, targets in imports.items()
    }


@dataclass(frozen=True)
class Bend:
    """A point that an arrow passes in a row between its ends, so that it does not cross boxes."""

    source: str
    target: str
    level: int


Node = str | Bend


def levels_of(imports: Graph) -> dict[str, int]:
    """Return the row of each package, from the top: each is above everything that it imports."""

    def height(package: str) -> int:
        return 1 + max(map(height, imports[package]), default=-1)

    heights = {package: height(package) for package in sorted(imports)}
    return {package: max(heights.values()) - level for package, level in heights.items()}


def chain(source: str, target: str, levels: Mapping[str, int]) -> list[Node]:
    """Return the nodes of an arrow, with a bend in each row that it passes."""
    bends = [Bend(source, target, level) for level in range(levels[source] + 1, levels[target])]
    return [source, *bends, target]


def place(chains: Sequence[Sequence[Node]], levels: Mapping[str, int]) -> dict[Node, int]:
    """Return the horizontal centre of each node. Nodes of a row are ordered by the centres of their neighbours."""
    neighbours: dict[Node, list[Node]] = {package: [] for package in levels}
    for nodes in chains:
        for upper, lower in pairwise(nodes):
            neighbours.setdefault(upper, []).append(lower)
            neighbours.setdefault(lower, []).append(upper)
    rows: dict[int, list[Node]] = {}
    for node in neighbours:
        rows.setdefault(node.level if isinstance(node, Bend) else levels[node], []).append(node)
    centres: dict[Node, int] = dict.fromkeys(neighbours, 0)
    for _ in range(40):
        for _, row in sorted(rows.items()):
            row.sort(key=lambda node: fmean(centres[one] for one in neighbours[node]) if neighbours[node] else 0)
            x = -sum(_width(node) for node in row) // 2
            for node in row:
                centres[node] = x + _width(node) // 2
                x += _width(node)
    shift = MARGIN - min(centre - _width(node) // 2 for node, centre in centres.items())
    return {node: centre + shift for node, centre in centres.items()}


def _width(node: Node) -> int:
    return BEND_WIDTH if isinstance(node, Bend) else COLUMN_WIDTH


def summary(package: str) -> str:
    """Return the first words of a package's docstring, up to the first colon or comma."""
    path = ROOT / "graphql_api" / package.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    sentence = docstring.replace("\n", " ").split(":")[0].split(",")[0].split(".")[0]
    return sentence if len(sentence) <= 32 else sentence[:31].rsplit(" ", 1)[0] + " …"


def draw(imports: Graph) -> str:
    """Return the picture as SVG."""
    levels = levels_of(imports)
    arrows = [
        (source, target) for source, targets in sorted(necessary_arrows(imports).items()) for target in sorted(targets)
    ]
    chains = [chain(source, target, levels) for source, target in arrows]
    centres = place(chains, levels)
    width = max(centre + _width(node) // 2 for node, centre in centres.items()) + MARGIN
    height = max(levels.values()) * ROW_HEIGHT + BOX_HEIGHT + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" text-anchor="middle">\n'
        "<title>The packages of graphql_api. Arrows lead to imported packages.</title>\n"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#557"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
    )
    lines = [head]
    for nodes in chains:
        top = MARGIN + levels[str(nodes[0])] * ROW_HEIGHT
        path = f"M{centres[nodes[0]]},{top + BOX_HEIGHT}"
        for upper, lower in pairwise(nodes):
            start, end = centres[upper], centres[lower]
            low = top + ROW_HEIGHT
            half = (top + BOX_HEIGHT + low) // 2
            path += f" C{start},{half} {end},{half} {end},{low}"
            if isinstance(lower, Bend):
                path += f" L{end},{low + BOX_HEIGHT}"
            top = low
        lines.append(f'<path d="{path}" fill="none" stroke="#557" stroke-width="1.3" marker-end="url(#arrow)"/>')
    for package, level in levels.items():
        middle, y = centres[package], MARGIN + level * ROW_HEIGHT
        box = f'x="{middle - BOX_WIDTH // 2}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
        lines += [
            f'<rect {box} rx="6" fill="#eef" stroke="#557"/>',
            f'<text x="{middle}" y="{y + 17}" font-size="14" font-weight="bold">{package}</text>',
            f'<text x="{middle}" y="{y + 32}" font-size="10" fill="#444">{summary(package)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(import_graph()), encoding="utf-8")
