"""Pictures of positions as pixels: the SVG shapes of `games.kit.svg.Canvas`, drawn by Pillow.

Only those shapes are known: rectangle, circle, polygon, line and text, without transformations. A picture with another one is
refused, so that no export lacks a part of its board. Pillow is imported with the first picture.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from games.kit.svg import PAPER
from zerofleet.errors import InvalidRequest

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

__all__ = ["SVG", "parsed", "raster", "size_of"]

SVG = "{http://www.w3.org/2000/svg}"
"""Namespace of the names of elements."""

OVERSAMPLING = 3  # in each direction, for smooth edges


def parsed(document: str) -> Xml.Element:
    """Return the root of an SVG document. Raises `InvalidRequest`."""
    try:
        root = Xml.fromstring(document)  # noqa: S314 - drawn by a game in this process, never received
    except Xml.ParseError as error:
        raise InvalidRequest(f"the game's picture is not SVG: {error}") from error
    if root.tag != f"{SVG}svg":
        raise InvalidRequest(f"the game's picture is {root.tag}, not svg")
    return root


def size_of(root: Xml.Element) -> tuple[float, float]:
    """Return width and height of a picture in its own pixels. Raises `InvalidRequest`."""
    return _number(root.attrib, "width"), _number(root.attrib, "height")


def raster(document: str, *, scale: float = 1.0) -> Image:
    """Return an SVG picture as an image in RGB, `scale` pixels for one of its own; raises `InvalidRequest` for other shapes."""
    from PIL import Image as Images  # noqa: PLC0415  (slow to import, and most commands draw nothing)
    from PIL import ImageDraw as Drawing  # noqa: PLC0415

    root = parsed(document)
    width, height = (max(1, round(scale * length)) for length in size_of(root))
    image = Images.new("RGB", (OVERSAMPLING * width, OVERSAMPLING * height), PAPER)
    brush = _Brush(Drawing.Draw(image), OVERSAMPLING * scale)
    for element in root:
        name = element.tag.removeprefix(SVG)
        draw = _SHAPES.get(name)
        if draw is None:
            raise InvalidRequest(f"the game's picture has a <{name}>, which cannot be drawn as pixels; export it as svg")
        strange = element.attrib.keys() - _ATTRIBUTES[name]
        if strange:
            raise InvalidRequest(
                f"a <{name}> of the game's picture has {', '.join(sorted(strange))}, which cannot be drawn as pixels; "
                "export it as svg"
            )
        draw(brush, element)
    return image.reduce(OVERSAMPLING)


class _Brush:
    """Drawing in the coordinates of the picture."""

    def __init__(self, pixels: ImageDraw, scale: float) -> None:
        self._pixels = pixels
        self._scale = scale

    def nothing(self, element: Xml.Element) -> None:
        """Draw nothing for a title."""

    def rectangle(self, element: Xml.Element) -> None:
        """Draw a rectangle; its stroke lies on the edge, half of it outside."""
        at = functools.partial(_number, element.attrib)
        x, y, half = at("x", 0.0), at("y", 0.0), self._half_stroke(element)
        box = self._box(x - half, y - half, x + at("width") + half, y + at("height") + half)
        fill, outline, width = self._paint(element)
        corner = (at("rx", 0.0) + half) * self._scale
        self._pixels.rounded_rectangle(box, corner, fill=fill, outline=outline, width=width)

    def circle(self, element: Xml.Element) -> None:
        """Draw a circle; its stroke lies on the edge, half of it outside."""
        at = functools.partial(_number, element.attrib)
        x, y, radius = at("cx"), at("cy"), at("r") + self._half_stroke(element)
        fill, outline, width = self._paint(element)
        self._pixels.ellipse(self._box(x - radius, y - radius, x + radius, y + radius), fill=fill, outline=outline, width=width)

    def polygon(self, element: Xml.Element) -> None:
        """Draw a polygon."""
        try:
            numbers = [float(number) * self._scale for number in element.attrib.get("points", "").replace(",", " ").split()]
            points = list(zip(numbers[::2], numbers[1::2], strict=True))
        except ValueError as error:
            raise InvalidRequest("the points of a polygon of the game's picture are not pairs of numbers") from error
        fill, stroke = _colour(element, "fill", "black"), _colour(element, "stroke", None)
        if fill is not None:
            self._pixels.polygon(points, fill=fill)
        if stroke is not None:
            width = max(1, round(2 * self._half_stroke(element) * self._scale))
            self._pixels.line([*points, *points[:2]], fill=stroke, width=width, joint="curve")

    def line(self, element: Xml.Element) -> None:
        """Draw a line."""
        ends = [_number(element.attrib, name) * self._scale for name in ("x1", "y1", "x2", "y2")]
        width = max(1, round(2 * self._half_stroke(element) * self._scale))
        self._pixels.line(ends, fill=_colour(element, "stroke", None), width=width)

    def text(self, element: Xml.Element) -> None:
        """Draw text; y is its baseline."""
        at = functools.partial(_number, element.attrib)
        weight, anchor = element.attrib.get("font-weight", "normal"), element.attrib.get("text-anchor", "start")
        self._pixels.text(
            (at("x") * self._scale, at("y") * self._scale),
            "".join(element.itertext()),
            fill=_colour(element, "fill", "black"),
            font=font(at("font-size", 16.0) * self._scale, is_bold=weight == "bold"),
            anchor=_ANCHORS.get(anchor, "ls"),
        )

    def _half_stroke(self, element: Xml.Element) -> float:
        if element.attrib.get("stroke", "none") == "none":
            return 0.0
        return _number(element.attrib, "stroke-width", 1.0) / 2

    def _box(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        """Return the box of a shape in pixels, whose last row and column belong to it."""
        scale = self._scale
        return left * scale, top * scale, max(left * scale, right * scale - 1), max(top * scale, bottom * scale - 1)

    def _paint(self, element: Xml.Element) -> tuple[str | None, str | None, int]:
        """Return fill, outline, and width of the outline in pixels."""
        stroke = _colour(element, "stroke", None)
        width = 0 if stroke is None else max(1, round(2 * self._half_stroke(element) * self._scale))
        return _colour(element, "fill", "black"), stroke, width


@functools.lru_cache(maxsize=64)
def font(size: float, *, is_bold: bool = False) -> FreeTypeFont:
    """Return the font of the pictures, which matplotlib contains, in pixels. Raises `InvalidRequest` where it is missing."""
    from PIL import ImageFont  # noqa: PLC0415  (as in `raster`)

    found = importlib.util.find_spec("matplotlib")  # located without an import
    if found is None or found.origin is None:
        raise InvalidRequest("matplotlib, whose fonts the pictures need, is not installed")
    name = "DejaVuSansMono-Bold.ttf" if is_bold else "DejaVuSansMono.ttf"
    return ImageFont.truetype(Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / name, size)


_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}  # Pillow's: horizontal alignment, then `s` for the baseline
_STROKED = frozenset({"fill", "stroke", "stroke-width"})
_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "title": frozenset(),
    "rect": _STROKED | {"x", "y", "width", "height", "rx"},
    "circle": _STROKED | {"cx", "cy", "r"},
    "polygon": _STROKED | {"points"},
    "line": _STROKED | {"x1", "y1", "x2", "y2"},
    "text": frozenset(
        {"x", "y", "font-size", "fill", "text-anchor", "font-weight", "{http://www.w3.org/XML/1998/namespace}space"}
    ),
}
_SHAPES: Mapping[str, Callable[[_Brush, Xml.Element], None]] = {
    "title": _Brush.nothing,
    "rect": _Brush.rectangle,
    "circle": _Brush.circle,
    "polygon": _Brush.polygon,
    "line": _Brush.line,
    "text": _Brush.text,
}


def _colour(element: Xml.Element, name: str, default: str | None) -> str | None:
    """Return a colour as Pillow reads it; None for none."""
    colour = element.attrib.get(name, default)
    return None if colour == "none" else colour


def _number(attributes: Mapping[str, str], name: str, default: float | None = None) -> float:
    text = attributes.get(name)
    if text is None and default is not None:
        return default
    try:
        return float(text or "")
    except ValueError as error:
        raise InvalidRequest(f"{name}={text!r} of the game's picture is not a number of pixels") from error
