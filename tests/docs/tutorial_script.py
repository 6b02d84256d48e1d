"""The tutorial as one shell script, made from its code blocks alone, in their order."""

import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-endpoint.md"
TEXT = PAGE.read_text(encoding="utf-8")
SERVER, SITE = "localhost:8000", "localhost:5173"
"""The addresses of the two servers in the tutorial."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(
    r"(Save this as|Append this to) `([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```$|^```sh\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_END = "END OF FILE"


def blocks() -> list[tuple[str, str]]:
    """Return the language and text of each code block."""
    return _BLOCK.findall(TEXT)


def files() -> dict[str, str]:
    """Return the files that the tutorial saves, with what it appends to them."""
    found: dict[str, str] = {}
    for _, name, text, _ in _FILE.findall(TEXT):
        if name:
            found[name] = found.get(name, "") + text
    return found


def commands() -> list[str]:
    """Return the shell commands, each a line of the tutorial."""
    return [line for language, text in blocks() if language == "sh" for line in text.splitlines()]


def script(server_port: int, site_port: int) -> str:
    """Return a script that saves the files and runs the commands in order, the two servers in the background."""
    lines = [*_script_lines()]
    text = "\n".join(["set -eu", "exec 3<&0", *lines, "echo complete", "wait", ""])
    ports = {SERVER: f"localhost:{server_port}", "127.0.0.1:5173": f"127.0.0.1:{site_port}"}
    for shown, used in ports.items():
        assert shown in text
        text = text.replace(shown, used)
    return text


def _script_lines() -> Iterator[str]:
    for kind, name, text, shell in _FILE.findall(TEXT):
        if name:
            yield f"cat {'>' if kind.startswith('Save') else '>>'} {name} <<'{_END}'\n{text}{_END}"
        for line in shell.splitlines():
            yield f"{line} <&3 &" if is_server(line) else line  # esbuild ends with its standard input


def is_server(command: str) -> bool:
    """Return whether a command runs until it is stopped."""
    return command.startswith("shardql serve ") or "--serve=" in command
