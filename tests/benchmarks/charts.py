"""Line charts as SVG, with logarithmic axes: without a package, and equal for equal figures."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 250, 50, 50
_COLOURS = ("#0b5fff", "#7a869a", "#d9480f", "#e8a317", "#2b8a3e", "#862e9c", "#087f8c")
_LABEL_DISTANCE = 16.0


def line_chart(title: str, x_label: str, y_label: str, series: Mapping[str, Points]) -> str:
    """Draw a line for each series. The first one is drawn strongest."""
    points = [point for each in series.values() for point in each]
    x_ticks = sorted({x for x, _ in points})
    y_ticks = _ticks(min(y for _, y in points), max(y for _, y in points))
    bottom, top = y_ticks[0], y_ticks[-1]
    right, base = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x_of(value: float) -> float:
        return _LEFT + (right - _LEFT) * math.log(value / x_ticks[0]) / math.log(x_ticks[-1] / x_ticks[0])

    def y_of(value: float) -> float:
        return base - (base - _TOP) * math.log(value / bottom) / math.log(top / bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, size=15, weight="bold"),
        _text((_LEFT + right) / 2, _HEIGHT - 10, x_label, anchor="middle"),
        _text(_LEFT, _TOP - 8, y_label, anchor="start", colour="#495057"),
    ]
    for tick in y_ticks:
        parts.append(f'<path d="M{_LEFT} {y_of(tick):.1f}H{right}" stroke="#dee2e6"/>')
        parts.append(_text(_LEFT - 8, y_of(tick) + 4, f"{tick:g}", anchor="end"))
    parts += [_text(x_of(tick), base + 18, f"{tick:,g}", anchor="middle") for tick in x_ticks]
    labels = _spread({name: y_of(each[-1][1]) for name, each in series.items()})
    for number, (name, each) in enumerate(series.items()):
        colour, width = _COLOURS[number % len(_COLOURS)], 3 if number == 0 else 1.8
        path = "L".join(f"{x_of(x):.1f} {y_of(y):.1f}" for x, y in each)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="{width}" fill="{colour}"/>' for x, y in each]
        weight = "bold" if number == 0 else "normal"
        parts.append(_text(right + 12, labels[name] + 4, name, colour=colour, weight=weight))
    return "\n".join([*parts, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from one below all values to one above them."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    first = max(at for at, tick in enumerate(ticks) if tick <= low)
    last = min(at for at, tick in enumerate(ticks) if tick >= high)
    return ticks[first : max(last, first + 1) + 1]


def _spread(positions: Mapping[str, float]) -> dict[str, float]:
    """Move labels apart that would overlap."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, position in sorted(positions.items(), key=lambda pair: pair[1]):
        last = placed[name] = max(position, last + _LABEL_DISTANCE)
    return placed


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = "#212529",
    size: int = 12,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-family="system-ui, sans-serif" font-weight="{weight}">{escape(text)}</text>'
    )
