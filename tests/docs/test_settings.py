"""The tables of settings in `docs/reference/settings.md` agree with the code."""

import re
from typing import Any

from graphql_api.cli import load_command
from graphql_api.server.settings import Settings, variable_name
from tests.docs.pages import ROOT

ROW = re.compile(r"^\| `(SHARDQL_[A-Z_]+)` \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)


def row(name: str) -> tuple[str, str, str, str, str]:
    """Return the table row of a setting: variable, option of `serve`, default, unit, meaning."""
    field = Settings.model_fields[name]
    extra: Any = field.json_schema_extra
    default = extra["default_text"] or formatted_default(field.default)
    meaning = " ".join(str(field.description).split())
    return variable_name(name), OPTIONS.get(name, "–"), default, extra["unit"], meaning


def formatted_default(default: object) -> str:
    """Return a default as documented."""
    match default:
        case None | "":
            return "–"
        case bool():
            return "yes" if default else "no"
        case float():
            return f"`{default:g}`"
        case _:
            return f"`{default}`"


def options() -> dict[str, str]:
    """Return the options of `serve` that are settings, by the setting's name."""
    return {
        parameter.name: f"`{parameter.opts[0]}`"
        for parameter in load_command("serve").params
        if parameter.name in Settings.model_fields
    }


OPTIONS = options()


def test_settings_are_documented() -> None:
    """The tables list exactly the existing settings in order, with option, default, unit and meaning."""
    text = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert ROW.findall(text) == [row(name) for name in Settings.model_fields]


def test_each_setting_is_described() -> None:
    """Each setting has a unit, and a meaning of at least one sentence."""
    for name in Settings.model_fields:
        _, _, _, unit, meaning = row(name)
        assert unit, name
        assert meaning.endswith("."), name


def test_options_of_serve_are_settings() -> None:
    """All options of `serve` except the catalog and the sample are settings of the same name."""
    names = {parameter.name for parameter in load_command("serve").params}
    assert names - set(OPTIONS) == {"address", "sample"}
