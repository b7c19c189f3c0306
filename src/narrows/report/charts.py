"""Saving charts as pictures and pages, and what all charts share: fonts, colours, lengths of labels.

altair and vl-convert are the extra `plot`; they are imported only when something is drawn.
"""

from __future__ import annotations

import html
import json
import os
from functools import cache
from typing import Any

from narrows.report.i18n import language
from narrows.text import BadInput

SUFFIXES = (".png", ".svg", ".html")
FONT_FOLDER = os.path.join(os.path.dirname(__file__), "fonts")

# The first name decides in pictures: vl-convert carries Liberation Sans, and `fonts/` the Korean one, so that a picture
# looks the same on every machine. The others serve browsers that show an SVG or a page.
_FONTS = {
    "en": "Liberation Sans, Arial, Helvetica, sans-serif",
    "ko": "Narrows Hangul, Noto Sans KR, Noto Sans CJK KR, Apple SD Gothic Neo, Malgun Gothic, sans-serif",
}

# Okabe and Ito (2008): told apart with any colour vision.
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#999999"
MIST = "#A6D9F7"
"""Sky blue made paler: of areas, where without colour it would look like the orange beside it."""
INK, FAINT = "#222222", "#666666"


def plotting() -> Any:
    """The altair module. Raises BadInput where the extra is not installed."""
    return _extra()[0]


def _extra() -> tuple[Any, Any]:
    try:
        import altair
        import vl_convert
    except ImportError:
        raise BadInput("charts need the extra 'plot': pip install 'narrows[plot]'") from None
    return altair, vl_convert


def font() -> str:
    """The font family for the language in use, with fallbacks."""
    return _FONTS.get(language(), _FONTS["en"])


def themed(chart: Any) -> Any:
    """The chart with the look all charts share, in the font of the language in use."""
    return (
        chart.configure(font=font(), background="white", padding=16)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=FAINT, titleColor=FAINT, labelFontSize=11, titleFontSize=11, titleFontWeight="normal", grid=False
        )
        .configure_legend(labelFontSize=12, labelColor=INK, symbolType="square", symbolSize=140, symbolStrokeWidth=0)
        .configure_title(anchor="start", fontSize=17, color=INK, subtitleFontSize=12, subtitleColor=FAINT, offset=14)
    )


def label(text: str, longest: int = 60, tail: int = 0) -> str:
    """Text from outside (names of models and devices) made safe to draw: printable, and no longer than fits.

    tail: characters at its end that stay, where they tell it from others.
    """
    printable = "".join(char if char.isprintable() else "?" for char in text)
    if len(printable) <= longest:
        return printable
    return printable[: longest - 1 - tail] + "…" + printable[len(printable) - tail :]


def wrapped(text: str, size: float, width: float) -> list[str]:
    """A text in lines that are not wider than that many pixels at a font size, broken at spaces."""
    lines = [""]
    for piece in text.split():
        longer = f"{lines[-1]} {piece}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(piece)
        else:
            lines[-1] = longer
    return lines


def text_width(text: str, size: float) -> float:
    """Pixels that a text takes at most at a font size, near enough to lay labels out: Hangul is square."""
    return size * sum(0.95 if ord(char) > 0x1100 else 0.3 if char in " .,'ilj|:;·" else 0.6 for char in text)


def save(chart: Any, path: str | os.PathLike[str]) -> None:
    """Draw a chart to a file: .png (twice the size on screen), .svg, or .html that works offline.

    The file appears whole or not at all. Raises BadInput for another suffix, a place that cannot be written, or
    where the extra `plot` is not installed.
    """
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        raise BadInput(
            "cannot draw to '{path}': its name must end in {known}", path=label(name, 200), known=", ".join(SUFFIXES)
        )
    target = os.path.realpath(name)
    _check(target)
    spec = chart.to_dict()
    _put(target, {".png": _png, ".svg": _svg, ".html": _html}[suffix](spec))


def _check(target: str) -> None:
    """Refuse before the work of drawing what could not be written after it."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise BadInput(
            "cannot write '{path}': there is no directory '{folder}'",
            path=label(target, 200),
            folder=label(folder, 200),
        )
    if os.path.isdir(target):
        raise BadInput("cannot write '{path}': it is a directory", path=label(target, 200))
    # A read-only file could be replaced in a writable directory, but its owner asked that it stay.
    if not os.access(target if os.path.exists(target) else folder, os.W_OK):
        raise BadInput("cannot write '{path}': {why}", path=label(target, 200), why=os.strerror(13))


def _put(target: str, content: bytes) -> None:
    temporary = os.path.join(os.path.dirname(target), f".narrows-{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError as problem:
        raise BadInput(
            "cannot write '{path}': {why}", path=label(target, 200), why=problem.strerror or str(problem)
        ) from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _converter() -> Any:
    """vl-convert, knowing the bundled fonts where the language needs them."""
    if language() != "en":
        _register_fonts()
    return _extra()[1]


@cache
def _register_fonts() -> None:
    """Once: vl-convert builds its list of fonts anew whenever it is told of a folder."""
    _extra()[1].register_font_directory(FONT_FOLDER)


def _png(spec: dict[str, Any]) -> bytes:
    return bytes(_converter().vegalite_to_png(spec, scale=2))


def _svg(spec: dict[str, Any]) -> bytes:
    return str(_converter().vegalite_to_svg(spec)).encode()


def _html(spec: dict[str, Any]) -> bytes:
    """One page with the scripts inside. Not vl-convert's own page: it lets a `</script>` in a label end the script."""
    scripts = _converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    title = spec.get("title", "")
    heading = title.get("text", "") if isinstance(title, dict) else title
    # `$schema` is an address that nothing here needs to know: the mode is given.
    inner = json.dumps({k: v for k, v in spec.items() if k != "$schema"}, ensure_ascii=False).replace("<", "\\u003c")
    # The editor is a web site, and this page is for machines without the web.
    actions = {"export": True, "source": True, "compiled": False, "editor": False}
    options = json.dumps({"mode": "vega-lite", "renderer": "svg", "actions": actions})
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="{language()}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(str(heading))}</title>\n<style>body {{ margin: 16px }}</style>\n"
        f'</head>\n<body>\n<div id="chart"></div>\n<script>{scripts}</script>\n'
        f'<script>vegaEmbed("#chart", {inner}, {options}).catch(console.error);</script>\n</body>\n</html>\n'
    ).encode("utf-8", "replace")
