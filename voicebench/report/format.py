"""How numbers read in every report: one rounding, one dash for what does not exist."""

from collections.abc import Mapping
from typing import Any

DASH = "\N{EN DASH}"


def ms(value: float | None) -> str:
    """``812.4`` reads ``812 ms``; under 10 ms one decimal is kept."""
    if value is None:
        return DASH
    text = f"{value:.1f}".removesuffix(".0") if abs(value) < 10 else f"{value:,.0f}"
    return f"{text if text != '-0' else '0'} ms"


def seconds(value: float | None) -> str:
    """``12.34`` reads ``12.3 s``, ``754`` reads ``12 min 34 s``."""
    if value is None:
        return DASH
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def share(value: float | None) -> str:
    """A rate between 0 and 1 in per cent, with a decimal only where it says something."""
    if value is None:
        return DASH
    percent = value * 100
    return f"{percent:.0f} %" if abs(percent - round(percent)) < 0.05 else f"{percent:.1f} %"


def number(value: float | None) -> str:
    """A plain figure in at most four significant digits."""
    if value is None:
        return DASH
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def count(value: int | None, noun: str = "") -> str:
    """``1 call``, ``1,200 calls``."""
    if value is None:
        return DASH
    return f"{value:,}" + (f" {noun}{'' if value == 1 else 's'}" if noun else "")


def quantity(key: str, value: float | None) -> str:
    """A value in the unit that its metric's name ends in."""
    if key.endswith("_ms"):
        return ms(value)
    return share(value) if key.endswith(("_rate", "_share")) else number(value)


def at(distribution: Mapping[str, Any] | None, statistic: str) -> Any:
    """One statistic of a distribution, None if there is no such thing."""
    return (distribution or {}).get(statistic)
