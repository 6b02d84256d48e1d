"""The command `scripts/bench`."""

import argparse
import sys
from pathlib import Path

from tests.benchmarks import bench_run, hostile_benchmark


def main() -> int:
    """Run the chosen benchmark."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures ShardQL: the CPU time of its processes, in relation to that of others in the same run.",
        epilog=f"Groups of rows: {', '.join(bench_run.WORKLOADS)}. Long ones: {', '.join(bench_run.LONG_WORKLOADS)}.",
    )
    parser.add_argument("--full", action="store_true", help="all rows, with larger sizes; takes many times longer")
    parser.add_argument("--hostile", action="store_true", help="the CPU time of requests that are expensive to refuse")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, only to see that everything works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings and figures to a file")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures of docs/images")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each hostile request (5)")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rows or requests whose names contain a word")
    arguments = parser.parse_args()
    if arguments.hostile:
        return hostile_benchmark.run(arguments.words, arguments.repeat)
    sizes = bench_run.chosen_sizes(full=arguments.full, tiny=arguments.tiny)
    return bench_run.run(arguments.words, sizes, full=arguments.full, json=arguments.json, pictures=arguments.pictures)


if __name__ == "__main__":
    sys.exit(main())
