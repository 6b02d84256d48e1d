"""The files of docs/how-to/deploying.md, and the container file of `shardql new`, are what their tools accept."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from graphql_api.cli import load_command
from graphql_api.server import Settings
from tests.docs.pages import ROOT
from tests.server.server_processes import KEY, server_process

TEXT = (ROOT / "docs" / "how-to" / "deploying.md").read_text(encoding="utf-8")
(UNIT,) = re.findall(r"^```ini\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
(PAGE_FILE,) = re.findall(r"^```dockerfile\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
STARTER_FILE = (files("graphql_api.cli.starter") / "Dockerfile").read_text("utf-8")
CONTAINER_FILES = {"page": PAGE_FILE, "starter": STARTER_FILE}


def unit_values(name: str) -> list[str]:
    """Return the values of an option of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


# --- container files -----------------------------------------------------------------------------------------------


def findings(text: str) -> list[str]:
    """Return the rules of hadolint that a container file breaks."""
    line = [str(Path(sys.executable).with_name("hadolint")), "--format", "json", "--no-fail", "-"]
    done = subprocess.run(line, input=text, capture_output=True, text=True, check=True)  # noqa: S603 - a linter
    return [one["code"] for one in json.loads(done.stdout)]


@pytest.mark.parametrize("text", CONTAINER_FILES.values(), ids=CONTAINER_FILES)
def test_container_files(text: str) -> None:
    """The linter accepts the file, and detects a privileged user and an unpinned image in a changed one."""
    assert findings(text) == []
    assert {"DL3002", "DL3006"} <= {*findings(text.replace("USER 10001", "USER root").replace(":3.13-slim", ""))}


@pytest.mark.parametrize("text", CONTAINER_FILES.values(), ids=CONTAINER_FILES)
def test_containers_run_an_unprivileged_server(text: str) -> None:
    """The last stage takes the environment of the first one, and has a user, a health check, and a valid command."""
    lines = text.replace("\\\n", "").splitlines()
    assert len([line for line in lines if line.startswith("FROM ")]) == 2
    assert "COPY --from=build /venv /venv" in lines
    assert lines.index("USER 10001") > lines.index("COPY --from=build /venv /venv")
    (health,) = [json.loads(line.partition("CMD ")[2]) for line in lines if line.startswith("HEALTHCHECK ")]
    compile(health[-1], "health check", "exec")
    assert "/readyz" in health[-1]
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD [")]
    assert command[:2] == ["shardql", "serve"]
    check_options(command)


def check_options(command: list[str]) -> None:
    """Check that each option is one of `shardql serve`."""
    options = {option for parameter in load_command("serve").params for option in parameter.opts}
    assert {word for word in command if word.startswith("--")} <= options


# --- the unit of systemd -------------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit as a file, with a program that exists."""
    file = tmp_path / "shop.service"
    file.write_text(UNIT.replace("/opt/shop/.venv/bin/shardql", "/bin/true").replace("/opt/shop", str(tmp_path)))
    return file


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(unit: Path) -> None:
    """The verification of systemd reports nothing about the unit, and detects a misspelt option."""
    assert verify(unit) == ""
    unit.write_text(unit.read_text().replace("ProtectClock", "ProtectClocks"))
    assert "ProtectClocks" in verify(unit)


def verify(unit: Path) -> str:
    """Return what `systemd-analyze verify` reports of a unit."""
    line = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603 - a linter
    return "\n".join(line for line in done.stderr.splitlines() if unit.name in line)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_hardened(unit: Path) -> None:
    """Systemd rates the exposure of the unit as low, and that of the unit without its options as high."""
    assert exposure(unit) < 2.0
    unit.write_text(unit.read_text().partition("# Hardening")[0])
    assert exposure(unit) > 8.0


def exposure(unit: Path) -> float:
    """Return the exposure level of a unit, from 0 to 10."""
    line = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603 - a linter
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    return float(found[1])


def test_the_unit_fits_the_server() -> None:
    """The unit knows the options, settings and exit codes of the server, and leaves it time to stop."""
    (start,) = unit_values("ExecStart")
    check_options(shlex.split(start))
    names = {text.partition("=")[0] for value in unit_values("Environment") for text in value.split()}
    assert names <= {f"SHARDQL_{name.upper()}" for name in Settings.model_fields}
    settings = Settings(production=True)
    assert float(unit_values("TimeoutStopSec")[0]) > settings.drain_seconds + settings.stop_seconds
    serve = load_command("serve").help
    for code, meaning in (("2", "usage or settings"), ("4", "catalog")):
        assert f"{code} {meaning}" in serve
        assert code in unit_values("RestartPreventExitStatus")[0].split()


def test_the_server_of_the_unit_stops_on_sigterm(tmp_path: Path) -> None:
    """The command and environment of the unit start a server. SIGTERM drains and ends it with exit code 0."""
    (tmp_path / "shop.py").write_text("from graphql_api.examples.users import catalog\n")
    for name in ("token-keys", "record-key"):
        (tmp_path / name).write_text(KEY)
    texts = [text for value in unit_values("Environment") for text in value.split()]
    placed = [text.replace("%d", str(tmp_path)).replace("/var/lib/shop", str(tmp_path)) for text in texts]
    variables = {name: value for name, _, value in (text.partition("=") for text in placed)}
    (start,) = unit_values("ExecStart")
    _, _, *words = shlex.split(start.replace(" --port 8000", ""))
    with server_process(tmp_path, *words, **variables, SHARDQL_DRAIN_SECONDS="0.1") as server:
        assert server.stop() == 0
    assert (tmp_path / "shop.db").exists()
