"""The picture of the packages agrees with the import graph."""

from tests.docs.package_picture import PICTURE, Bend, chain, draw, import_graph, levels_of, necessary_arrows, place


def test_picture_is_up_to_date() -> None:
    """The picture is what `scripts/package-picture` draws now."""
    assert PICTURE.read_text(encoding="utf-8") == draw(import_graph()), "run scripts/package-picture"


def test_arrows_that_follow_from_others_are_left_out() -> None:
    """An import is not drawn if a chain of other imports leads to the same package."""
    imports = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}
    assert necessary_arrows(imports) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}


def test_every_package_is_above_what_it_imports() -> None:
    """Arrows lead down, by one row or more."""
    imports = import_graph()
    levels = levels_of(imports)
    assert len(levels) > 15
    assert all(levels[package] < levels[target] for package, targets in imports.items() for target in targets)


def test_arrows_pass_boxes() -> None:
    """An arrow over several rows has a place of its own in each row between its ends."""
    levels = {"a": 0, "b": 1, "c": 2}
    chains = [chain("a", "b", levels), chain("a", "c", levels), chain("b", "c", levels)]
    assert chains[1] == ["a", Bend("a", "c", 1), "c"]
    centres = place(chains, levels)
    assert centres["b"] != centres[Bend("a", "c", 1)]
