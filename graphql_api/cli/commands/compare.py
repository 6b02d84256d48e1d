"""`shardql compare`: compares the metrics of two moments or of two servers."""

import time
from collections.abc import Mapping
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

import typer
from rich.console import Console

from graphql_api.cli.common_options import JsonOutput, option
from graphql_api.cli.exit_codes import FINDINGS, suggest_file
from graphql_api.cli.terminal_output import print_json, replace_unencodable_output
from graphql_api.errors import ConflictingArguments, InvalidValue, MissingArgument

if TYPE_CHECKING:
    from graphql_api.cli.comparison.confidence_intervals import Estimate
    from graphql_api.cli.comparison.metrics_comparison import Comparison, Difference
    from graphql_api.cli.comparison.metrics_page import MetricsPage, Period

RESPONSE_SECONDS = 10.0
"""time for each step of a server's response"""
MAX_PAGE_BYTES = 64 << 20


def compare(
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="File with a response of /metrics, or URL of a server.")
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="Later page of the same server, or a page of another one.")
    ] = None,
    *,
    window: Annotated[
        float | None, option("SECONDS", "Read the page of one server twice, with this time in between.")
    ] = None,
    threshold: Annotated[float, option("PERCENT", "Smallest change that is reported, by default 50.")] = 50.0,
    as_json: JsonOutput = False,
) -> None:
    """Compare the metrics of two moments or of two servers. Print what has changed, the worst first.

    Values are shares, means per event and quantiles, so traffic does not matter. Each has a 99 % confidence interval,
    and a change is reported only if the intervals are further apart than the threshold.

    Exit codes: 0 nothing has changed, 1 something has changed, 2 usage, or nothing can be compared.

    Try it:

    ```
    curl -s http://localhost:8000/metrics > before.txt
    shardql compare before.txt http://localhost:8000
    shardql compare http://localhost:8000 --window 60
    ```
    """
    from graphql_api.cli.comparison.metrics_comparison import compare_periods  # noqa: PLC0415 - slow import
    from graphql_api.cli.comparison.metrics_page import periods  # noqa: PLC0415 - slow import

    if not isfinite(threshold) or threshold < 0:
        raise InvalidValue(f"--threshold is {threshold:g}: use a percentage of at least 0.")
    sides = periods(*_read_pages(before, after, window))
    comparison = compare_periods(*sides, threshold / 100)
    _check_comparable(sides, comparison)
    if as_json:
        print_json(_as_json(sides, comparison, threshold))
    else:
        replace_unencodable_output()
        _print(sides, comparison, threshold)
    if comparison.changes:
        raise typer.Exit(FINDINGS)


# --- pages -----------------------------------------------------------------------------------------------------


def _read_pages(before: str, after: str | None, window: float | None) -> "tuple[MetricsPage, MetricsPage]":
    if window is None:
        if after is None:
            raise MissingArgument("Name a second page, or read one server twice with --window SECONDS.")
        return _read_page(before), _read_page(after)
    if after is not None:
        raise ConflictingArguments("--window reads one server twice: leave out the second page.")
    if not _is_url(before):
        raise InvalidValue(f"--window needs the URL of a server, not the file {before}.")
    if not isfinite(window) or window <= 0:
        raise InvalidValue(f"--window is {window:g}: use a number of seconds above 0.")
    first = _read_page(before)
    with Console(stderr=True).status(f"waiting {window:g} s"):
        time.sleep(window)
    return first, _read_page(before)


def _read_page(source: str) -> "MetricsPage":
    from graphql_api.cli.comparison.metrics_page import parse_page  # noqa: PLC0415 - slow import

    content = _fetch(source) if _is_url(source) else _read_file(Path(source))
    try:
        return parse_page(content.decode(), source)
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{source} is not UTF-8 text. Use the response of /metrics.") from error


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _read_file(path: Path) -> bytes:
    if not path.exists():
        raise InvalidValue(f"There is no file {path}.{suggest_file(path)} URLs begin with http:// or https://.")
    return path.read_bytes()


def _fetch(source: str) -> bytes:
    """Return the response of a server. A URL without a path means its /metrics."""
    try:
        parts = urlsplit(source)
        url = urlunsplit(parts._replace(path="/metrics")) if parts.path in {"", "/"} else source
        request = Request(url, headers={"accept": "text/plain"})  # noqa: S310 - http or https, as checked
        with urlopen(request, timeout=RESPONSE_SECONDS) as response:  # noqa: S310 - http or https, as checked
            content: bytes = response.read(MAX_PAGE_BYTES + 1)
    except HTTPError as error:
        error.close()
        remedy = "Use the URL of /metrics, which SHARDQL_METRICS=0 turns off"
        raise InvalidValue(f"{source} responds with status {error.code}. {remedy}.") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InvalidValue(f"{source} cannot be read: {reason}.") from error
    if len(content) > MAX_PAGE_BYTES:
        raise InvalidValue(f"{source} is larger than {MAX_PAGE_BYTES >> 20} MiB.")
    return content


def _check_comparable(sides: "tuple[Period, Period]", comparison: "Comparison") -> None:
    """Refuse periods without any event: an empty result would look as if nothing had changed."""
    for side in sides:
        if not side.operations and any(name.startswith("shardql_") for name in side.by_name):
            raise InvalidValue(f"{side.source} has no operation since {side.since}: there is nothing to compare.")
    if not comparison.differences:
        raise InvalidValue("The pages have no values in common that can be compared.")


# --- output ----------------------------------------------------------------------------------------------------


def _print(sides: "tuple[Period, Period]", comparison: "Comparison", threshold: float) -> None:
    from graphql_api.cli.comparison.metrics_page import describe_series  # noqa: PLC0415 - slow import

    rows = [(one.verdict, describe_series(one.metric, one.labels), _describe_values(one)) for one in comparison.changes]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    for verdict, series, values in rows:
        typer.echo(f"{verdict:{widths[0]}}  {series:{widths[1]}}  {values}")
    count, undecided = len(comparison.changes), len(comparison.undecided)
    if rows:
        typer.echo()
    typer.echo(f"{count} of {len(comparison.differences)} values changed by more than {threshold:g} %.", nl=False)
    typer.echo(f" {undecided} more may have: there are too few events to be sure." if undecided else "")
    for label, side in zip(("before", "after"), sides, strict=True):
        typer.echo(f"{label:8}{_describe_period(side)}")
    if comparison.only_before or comparison.only_after:
        counts = f"{len(comparison.only_before)} of before, {len(comparison.only_after)} of after"
        typer.echo(f"Not compared, because only one period has such events: {counts} (--json lists them).")


def _describe_period(period: "Period") -> str:
    text = f"{period.source}: {period.operations:,.0f} operations"
    if period.seconds:
        text += f" in {period.seconds:,.0f} s, {period.operations / period.seconds:,.3g} per second"
    return f"{text}, since {period.since}"


def _describe_values(difference: "Difference") -> str:
    before, after = (_format(one.value, difference) for one in (difference.before, difference.after))
    if difference.is_quantile:
        return f"{difference.unit} {before} → {after}"
    return f"{before} → {after} {difference.unit}"


def _format(value: float, difference: "Difference") -> str:
    if difference.is_share:
        return f"{value * 100:.3g} %"
    if not difference.is_duration:
        return f"{value:.3g}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def _as_json(sides: "tuple[Period, Period]", comparison: "Comparison", threshold: float) -> Mapping[str, Any]:
    from graphql_api.cli.comparison.confidence_intervals import CONFIDENCE  # noqa: PLC0415 - slow import

    return {
        "thresholdPercent": threshold,
        "confidencePercent": CONFIDENCE * 100,
        "before": _period_as_json(sides[0]),
        "after": _period_as_json(sides[1]),
        "changed": len(comparison.changes),
        "values": [
            {
                "verdict": one.verdict,
                "severity": one.severity,
                "isConsequence": one.is_consequence,
                "metric": one.metric,
                "labels": dict(sorted(one.labels)),
                "unit": one.unit,
                "before": _estimate_as_json(one.before),
                "after": _estimate_as_json(one.after),
            }
            for one in comparison.differences
        ],
        "onlyBefore": comparison.only_before,
        "onlyAfter": comparison.only_after,
    }


def _period_as_json(period: "Period") -> Mapping[str, Any]:
    return {
        "source": period.source,
        "since": period.since,
        "seconds": period.seconds,
        "operations": period.operations,
    }


def _estimate_as_json(estimate: "Estimate") -> Mapping[str, Any]:
    high = estimate.high if isfinite(estimate.high) else None
    return {"value": estimate.value, "low": estimate.low, "high": high, "samples": estimate.samples}
