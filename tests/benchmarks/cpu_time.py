"""CPU time and memory of processes, as the scheduler counts them."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and of all its descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # It has ended meanwhile.
        children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the user and system time of processes with all their threads, in nanosecond steps.

    `/proc/PID/stat` has the same sum, but in steps of 10 milliseconds.
    """
    return sum(
        time.clock_gettime(~pid << 3 | 2) for pid in pids
    )  # The CPU clock of a process, see clock_getcpuclockid.


def resident_bytes(pids: Sequence[int], field: str = "VmRSS") -> int:
    """Return the resident memory of processes; with `VmHWM` its peak."""
    return sum(_status_bytes(pid, field) for pid in pids)


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0


def command_cpu_seconds(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> float:
    """Run a command that must succeed. Return its CPU time, with that of the processes that it waited for."""
    process = subprocess.Popen(  # noqa: S603 - a command of the benchmark
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime
