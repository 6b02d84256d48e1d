"""The depth of a test run: quick by default, deep with `--deep`."""

from hypothesis import settings

QUICK_EXAMPLES = 30
DEEP_EXAMPLES = 2_000


def is_deep() -> bool:
    """Whether this run was started with `--deep`."""
    return settings.get_current_profile_name().startswith("deep")


def depth(quick: int, deep: int) -> int:
    """The amount for the depth of this run, for loops outside of Hypothesis."""
    return deep if is_deep() else quick


def examples(quick: int, deep: int | None = None) -> settings:
    """Hypothesis settings with three fifths of `quick` examples, or with `deep`, by default 40 times `quick`.

    Each commit draws other cases, so a run needs few of them.

    A plain `@settings(max_examples=…)` would ignore the depth of the run.
    """
    scaled = quick * 40 if deep is None else deep
    return settings(max_examples=depth(max(2, quick * 3 // 5), scaled))
