"""The few shapes that the report's drawings are made of. Everything is static SVG, coloured by the page's classes.

Text is escaped here and nowhere else; ``content`` of ``tag`` is markup already.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


def tag(name: str, content: str = "", **attributes: str | float | None) -> str:
    """One element. ``class_`` stands for class, ``stroke_width`` for stroke-width; None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    """A line of text; ``content`` is escaped."""
    return tag(
        "text", escape(content), x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor
    )


def title(content: str) -> str:
    """What a browser shows when the pointer rests on the parent shape."""
    return tag("title", escape(content))


def line(x1: float, y1: float, x2: float, y2: float, class_: str, hint: str = "") -> str:
    """A straight line."""
    return tag("line", title(hint) if hint else "", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(
    x: float, y: float, width: float, height: float, class_: str, hint: str = "", rx: float | None = None
) -> str:
    """A rectangle, at least half a pixel wide so that it can be seen."""
    shape = {"x": x, "y": y, "width": max(width, 0.5), "height": max(height, 0.0), "rx": rx}
    return tag("rect", title(hint) if hint else "", class_=class_, **shape)


def path(points: Sequence[tuple[float, float]], class_: str, close: bool = False) -> str:
    """A polyline, or an area if closed."""
    steps = "L".join(f"{_value(x)} {_value(y)}" for x, y in points)
    return tag("path", d=f"M{steps}{'Z' if close else ''}", class_=class_)


def drawing(width: float, height: float, content: str, label: str, class_: str = "plot") -> str:
    """The outer element; ``label`` is what a screen reader says."""
    return (
        f'<svg class="{escape(class_)}" viewBox="0 0 {_value(width)} {_value(height)}" width="{_value(width)}" '
        f'height="{_value(height)}" role="img" aria-label="{escape(label)}">{content}</svg>'
    )


@dataclass(frozen=True)
class Axis:
    """Maps values from ``low`` to ``high`` onto pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value, kept within the axis."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)

    def ticks(self, about: int = 6) -> list[float]:
        """Round values at even steps."""
        step = nice_step((self.high - self.low) / max(about, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least ``least``."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return (
        f"{value:.1f}".removesuffix(".0").replace("-0", "0")
        if abs(value) < 0.05
        else f"{value:.1f}".removesuffix(".0")
    )
