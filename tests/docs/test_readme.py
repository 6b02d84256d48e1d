"""The first screen of the README."""

from tests.docs.pages import README

FIRST_SCREEN = 50


def test_first_screen_names_the_commands() -> None:
    """The first screen of the README shows the two main commands, `scripts/serve` first."""
    screen = README.read_text(encoding="utf-8").splitlines()[:FIRST_SCREEN]
    commands = [word for line in screen for word in ("scripts/serve", "scripts/test") if word in line]
    assert list(dict.fromkeys(commands)) == ["scripts/serve", "scripts/test"]
