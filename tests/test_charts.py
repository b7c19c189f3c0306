"""Charts: files that open anywhere, labels that can be read, in every language."""

from __future__ import annotations

import builtins
import math
import os
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from narrows.answers.explain import explain
from narrows.answers.explain.picture import picture
from narrows.answers.fit import Fit, fit
from narrows.hardware import find_accelerator
from narrows.report import charts, i18n
from narrows.report.fit_chart import fit_chart
from narrows.report.labels import Box, Frame, place
from narrows.report.roofline_chart import layout, roofline_chart
from narrows.roofline import Roof
from narrows.text import BadInput

FONT = Path(charts.FONT_FOLDER) / "narrows-hangul.ttf"
CATALOGUE = Path(i18n.__file__).parents[1] / "locale/ko/LC_MESSAGES/narrows.po"
KOREAN = {
    "weights": "가중치",
    "KV cache": "KV 캐시",
    "peak": "최고점",
    "engine's budget": "엔진 예산",
    "compute-bound": "연산 병목",
}


@pytest.fixture(scope="module")
def two() -> Fit:
    return fit("llama-2-7b", gpu=["a10g", "l40s"], max_len=4096)


@pytest.fixture
def korean(monkeypatch: pytest.MonkeyPatch) -> None:
    class Translations:
        def gettext(self, msgid: str) -> str:
            return KOREAN.get(msgid, msgid)

    monkeypatch.setattr(i18n, "_language", "ko")
    monkeypatch.setattr(i18n, "_translations", Translations())


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def svg_texts(path: Path) -> list[str]:
    root = ET.fromstring(path.read_bytes())
    return ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]


def drawn(chart: Any, tmp_path: Path) -> str:
    charts.save(chart, tmp_path / "chart.svg")
    return "\n".join(svg_texts(tmp_path / "chart.svg"))


@pytest.mark.parametrize("make", [lambda two: fit_chart(two), lambda two: roofline_chart()], ids=["fit", "roofline"])
def test_a_png_is_a_picture_large_enough_to_read(make: Callable[[Fit], Any], two: Fit, tmp_path: Path) -> None:
    charts.save(make(two), tmp_path / "chart.png")
    width, height = png_size(tmp_path / "chart.png")
    assert width > 1200 and height > 700
    assert os.listdir(tmp_path) == ["chart.png"]


def test_the_fit_chart_says_what_fits_at_what_price_and_where_the_limits_are(two: Fit, tmp_path: Path) -> None:
    text = drawn(fit_chart(two), tmp_path)
    for wanted in ("A10G", "L40S", "fits: at most 3 × 4,096 tokens", "fits: at most 13 × 4,096 tokens", "per hour"):
        assert wanted in text
    for term in ("weights", "runtime", "activations", "KV cache", "loaded", "first prefill", "mid-decode", "peak"):
        assert term in text
    for one in two.candidates:
        assert f"{one.terms.usable / 2**30:.2f} GiB" in text
        assert f"{(one.terms.usable - one.terms.unclaimed) / 2**30:.2f} GiB" in text
        assert f"{one.growth[-1].used / 2**30:.2f}" in text
    assert "state" not in text.split()


def test_what_does_not_fit_overshoots_the_line_by_a_figure(tmp_path: Path) -> None:
    answer = fit("llama-2-7b", gpu=["t4", "a10g"], max_len=4096, batch=16)
    text = drawn(fit_chart(answer), tmp_path)
    assert "16 × 4,096 tokens do not fit; at most 3" in text
    peak = answer.candidates[1].growth[-1]
    over = peak.used - (peak.terms.usable - peak.terms.unclaimed)
    assert f"+{over / 2**30:.2f} over" in text
    mend = answer.candidates[1].mend
    assert mend is not None and f"fits with {mend.change}" in text


@pytest.mark.parametrize("count", [1, 4, 6])
def test_panels_share_one_scale_and_wrap(count: int) -> None:
    gpus = ["t4", "a10g", "l40s", "a100-sxm-80gb", "h100-sxm", "mi300x"][:count]
    spec = fit_chart(fit("llama-2-7b", gpu=gpus, max_len=4096)).to_dict()
    assert len(spec["concat"]) == count and spec["columns"] <= 3
    domains = {str(layer["encoding"]["y"]["scale"]["domain"]) for panel in spec["concat"] for layer in panel["layer"]}
    assert len(domains) == 1


@pytest.mark.parametrize("scale", [2**30, 640 * 2**30])
def test_the_scale_follows_the_device(scale: int, tmp_path: Path) -> None:
    text = drawn(fit_chart(fit("llama-2-7b", gpu="l40s", max_len=4096, memory=scale)), tmp_path)
    assert f"{scale / 2**30:.2f} GiB" in text or f"{scale / 2**30:.1f} GiB" in text


def test_the_roofline_names_every_example_of_the_chapter(tmp_path: Path) -> None:
    text = drawn(roofline_chart(), tmp_path)
    for wanted in ("ridge point 419 FLOP/B", "BF16 peak 362 TFLOP/s", "FP8 peak 733 TFLOP/s", "memory 864 GB/s"):
        assert wanted in text
    for figure in ("1.0", "15.9", "21.3", "62.1", "171", "410", "419", "1,365"):
        assert re.search(rf": {figure}$", text, re.M)
    assert re.search(r"matmul 4096, prefill.*: 1,365", text)
    assert "memory-bandwidth-bound" in text and "compute-bound" in text


def test_the_roofline_takes_an_answer_of_explain_with_and_without_a_picture_of_its_own() -> None:
    def texts(source: Any) -> str:
        return str(roofline_chart(source).to_dict())

    assert "fused attention" in texts(explain("hierarchy"))
    assert "matmul 4096, prefill" in texts(explain("kv"))
    assert "matmul 4096, prefill" in texts(explain())


def chapter(gpu: str) -> list[Any]:
    points = [
        (one.label, one.intensity)
        for topic in explain().topics
        if topic.roofline and topic.id in ("matmul", "phases", "batching")
        for one in topic.roofline.points
    ]
    return [picture(find_accelerator(gpu), points)]


@pytest.mark.parametrize("gpu", ["l40s", "a10g", "h100-sxm", "mi300x"])
def test_no_label_of_the_roofline_stands_on_another_or_on_a_line(gpu: str) -> None:
    made = layout(chapter(gpu))
    for one, other in combinations([*made.labels, *made.notes], 2):
        assert not one.box.meets(other.box), (one.text, other.text)
    for one in made.labels:
        assert one.box.left >= 0 and one.box.right <= made.frame.width
        assert one.box.top >= 0 and one.box.bottom <= made.frame.height
        for roof in made.roofs.values():
            heights = [made.frame.roof(roof, one.box.left + (one.box.right - one.box.left) * t / 20) for t in range(21)]
            assert all(not one.box.top < height < one.box.bottom for height in heights), one.text
        for point in made.points:
            mark = Box(*[f(v) for f, v in ((made.frame.x, point.intensity), (made.frame.y, point.attainable))] * 2)
            assert not one.box.meets(mark.grown(4)), one.text


def test_a_crowd_of_points_still_gets_labels_apart() -> None:
    frame, roof = Frame(820, 460, (0.5, 5e11), (4000, 2e15)), Roof(362e12, 864e9)
    points = [(f"work {n}", 100.0 * 1.03**n, roof.attainable(100.0 * 1.03**n)) for n in range(8)]
    for one, other in combinations(place(frame, points, [roof], []), 2):
        assert not one.box.meets(other.box), (one.text, other.text)


def test_widths_of_labels_are_not_underestimated() -> None:
    fonttools = pytest.importorskip("fontTools.ttLib")
    font = fonttools.TTFont(FONT)
    for text in ("matmul 4096, prefill s = 4096: 1,365", "디코드 B = 527: 419", "메모리 대역폭 병목"):
        width = sum(font["hmtx"][font.getBestCmap()[ord(char)]][0] for char in text) * 11.5 / font["head"].unitsPerEm
        assert width <= charts.text_width(text, 11.5) <= 1.3 * width


def test_a_page_works_without_the_web_and_holds_the_chart(two: Fit, tmp_path: Path) -> None:
    charts.save(fit_chart(two), tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text()
    assert "vegaEmbed(" in page and "fits: at most 13 × 4,096 tokens" in page and '<html lang="en">' in page
    # The scripts hold markup in strings (a tooltip's image), so the page is read as a browser reads it.
    tags: list[tuple[str, str]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.extend((tag, name) for name, _ in attrs)  # type: ignore[method-assign]
    parser.feed(page)
    assert ("div", "id") in tags and not {"src", "href", "srcset", "data"} & {name for _, name in tags}
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert not re.search(r"""@import|import\s*\(?\s*["']https?:|from\s*["']https?:""", page)
    spec = page[page.rindex("vegaEmbed(") :]
    assert "http" not in spec and '"url"' not in spec


def test_a_name_cannot_break_out_of_a_page(two: Fit, tmp_path: Path) -> None:
    import msgspec

    hostile = msgspec.structs.replace(two.model, name="</script><script>alert(1)</script>\n")
    charts.save(fit_chart(msgspec.structs.replace(two, model=hostile)), tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text()
    assert "<script>alert" not in page and page.count("</script>") == 2


@pytest.mark.parametrize("name", ["chart.pdf", "chart", "chart.png.txt", ".png"])
def test_other_suffixes_are_refused_with_those_that_work(name: str, two: Fit, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"\.png, \.svg, \.html") as problem:
        charts.save(fit_chart(two), tmp_path / name)
    assert name in str(problem.value)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_refused(two: Fit, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "missing" / "chart.svg", tmp_path / "folder.png", tmp_path / "file" / "chart.svg"):
        with pytest.raises(BadInput, match="cannot write"):
            charts.save(fit_chart(two), target)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.png"]


def test_a_failed_write_leaves_the_old_picture_and_nothing_else(
    two: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "chart.svg"
    target.write_text("old")

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        charts.save(fit_chart(two), target)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["chart.svg"]


def test_without_the_extra_the_message_says_what_to_install(two: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def missing(name: str, *args: Any, **more: Any) -> Any:
        if name == "vl_convert":
            raise ImportError(name)
        return plain(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BadInput, match=re.escape("pip install 'narrows[plot]'")):
        fit_chart(two)


@pytest.mark.usefixtures("korean")
def test_korean_charts_are_in_korean(two: Fit, tmp_path: Path) -> None:
    text = drawn(fit_chart(two), tmp_path)
    assert all(word in text for word in ("가중치", "KV 캐시", "최고점", "엔진 예산"))
    assert "연산 병목" in drawn(roofline_chart(), tmp_path)
    svg = (tmp_path / "chart.svg").read_text()
    assert "Narrows Hangul" in svg and "sans-serif" in svg


@pytest.mark.usefixtures("korean")
def test_korean_letters_in_a_png_are_not_empty_boxes(tmp_path: Path) -> None:
    """Two letters look different; two boxes for missing letters look the same."""
    alt = charts.plotting()

    def one(text: str) -> bytes:
        chart = charts.themed(alt.Chart(alt.Data(values=[{}])).mark_text(text=text, fontSize=40))
        charts.save(chart, tmp_path / "chart.png")
        return (tmp_path / "chart.png").read_bytes()

    assert one("가") != one("나")


def hangul_of(catalogue: Path) -> set[str]:
    """Every Hangul syllable and letter of the translations of a .po file; other scripts come from the Latin font."""
    text = "".join(re.findall(r'^(?:msgstr(?:\[\d\])? )?"(.*)"$', catalogue.read_text(), re.M))
    return set(re.findall("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]", text))


def test_the_bundled_font_has_all_hangul_of_the_korean_catalogue() -> None:
    fonttools = pytest.importorskip("fontTools.ttLib")
    known = set(fonttools.TTFont(FONT).getBestCmap())
    assert {ord(char) for char in "가힝×·→≤≈−–µ°…"} <= known
    assert FONT.stat().st_size < 600_000 and "SIL Open Font License" in (FONT.parent / "OFL.txt").read_text()
    assert {char for char in hangul_of(CATALOGUE) if ord(char) not in known} == set()


def test_drawing_is_only_loaded_when_something_is_drawn() -> None:
    import subprocess
    import sys

    code = "import sys, narrows.report.charts, narrows.report.fit_chart, narrows.report.roofline_chart as r; "
    code += "print([m for m in ('altair', 'vl_convert', 'numpy') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_frames_map_decades_to_equal_lengths() -> None:
    frame = Frame(300, 200, (1.0, 1.0), (1000.0, 100.0))
    assert math.isclose(frame.x(10), 100) and math.isclose(frame.x(100), 200)
    assert math.isclose(frame.y(1), 200) and math.isclose(frame.y(10), 100)
