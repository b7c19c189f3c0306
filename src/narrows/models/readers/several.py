"""Multimodal models whose parts are more than one tower and one projector."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.multimodal import PASSED_OVER, Family, moved, text_of
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.readers.towers.sam import neck, sam
from narrows.models.spec import ModelSpec, Tower

_INSIDE = "model.language_model"


def together(c: Fields, family: Family, text: ModelSpec, name: str, towers: list[Tower]) -> ModelSpec:
    """The decoder with its towers, under a family's name."""
    c.read |= PASSED_OVER | {one for one in c.values if one.endswith(("_token_id", "_token_index"))}
    dialect = moved(family, text)
    return msgspec.structs.replace(text, family=name, dialect=dialect, towers=(*towers, *text.towers))


def _convolutions(parts: Parts, stem: str, *widths: int, names: tuple[str, ...] = ("conv1", "conv2")) -> None:
    """Convolutions that halve the sides."""
    for name, inner, out in zip(names, widths[:-1], widths[1:], strict=True):
        parts.add(stem + name, out, inner, 3, 3)


def read_deepseek_vl_hybrid(c: Fields) -> ModelSpec:
    """DeepSeek-VL 7B: SigLIP for the whole, Segment Anything for details."""
    family = Family(names=_INSIDE, tied_default=True)
    text = text_of(c, family)
    body = vision(c.nested("vision_config"), "siglip_vision_model", "model.vision_model.")
    fine = sam(c.nested("high_res_vision_config"), "model.high_res_vision_model.vision_encoder.", by_ratio=True)
    parts, hidden = Parts("model."), text.hidden
    neck(parts, "high_res_vision_neck.", fine.hidden, fine.out)
    _convolutions(parts, "high_res_vision_proj.", fine.out, 2 * fine.out, 4 * fine.out)
    parts.parameter("high_res_vision_alpha", 1)
    parts.add("aligner.vision_proj", hidden // 2, body.hidden, bias=True)
    parts.add("aligner.high_res_vision_proj", hidden // 2, 4 * fine.out, bias=True)
    parts.add("aligner.proj", hidden, hidden, bias=True)
    towers = [body.parts.tower(), fine.parts.tower("second vision tower"), parts.tower("projector")]
    c.read.add("high_res_vision_config")
    return together(c, family, text, "deepseek_vl_hybrid", towers)


def read_pp_chart2table(c: Fields) -> ModelSpec:
    """PP-Chart2Table: Segment Anything, convolutions, a Qwen 2 decoder."""
    family = Family(text="qwen2", names=_INSIDE, tied_default=True)
    text = text_of(c, family)
    body = sam(c.nested("vision_config"), "model.vision_tower.")
    parts = Parts("model.multi_modal_projector.")
    names = ("conv_upsampler1", "conv_upsampler2")
    _convolutions(parts, "", body.out, 2 * body.out, text.hidden, names=names)
    parts.add("multimodal_projector", text.hidden, text.hidden, bias=True)
    return together(c, family, text, "pp_chart2table", [body.parts.tower(), parts.tower("projector")])


def read_unlimited_ocr(c: Fields) -> ModelSpec:
    """Unlimited OCR: Segment Anything, whose output CLIP's layers go over once more."""
    family = Family(text="unlimited_ocr_text", names=_INSIDE)
    text = text_of(c, family)
    v = c.nested("vision_config")
    fine = sam(v.nested("sam_config"), "model.vision_tower.sam_encoder.")
    widths = whole_numbers(v.nested("sam_config"), "downsample_channels", default=[512, 1024], count=2)
    _convolutions(fine.parts, "proj.", fine.out, *widths)
    body = vision(v.nested("encoder_config"), "unlimited_ocr_vision_encoder", "model.vision_tower.vision_encoder.")
    parts = Parts("model.")
    parts.add("multi_modal_projector", text.hidden, widths[-1] + body.hidden, bias=True)
    for name in ("view_separator", "image_newline"):
        parts.parameter(name, text.hidden)
    towers = [fine.parts.tower(), body.parts.tower("second vision tower"), parts.tower("projector")]
    return together(c, family, text, "unlimited_ocr", towers)
