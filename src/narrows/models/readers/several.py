"""Multimodal models whose parts are more than one tower and one projector."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.gemma import read_gemma
from narrows.models.readers.multimodal import inside_of, pass_over, read, text_of
from narrows.models.readers.texts import TEXTS
from narrows.models.readers.towers import projectors, vision
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.readers.towers.sam import neck, sam
from narrows.models.readers.vision import qwen3_vision
from narrows.models.spec import ModelSpec, Tower

_INSIDE = "model.language_model"


def together(c: Fields, family: Family, text: ModelSpec, name: str, towers: list[Tower]) -> ModelSpec:
    """The decoder with its towers, under a family's name."""
    pass_over(c)
    return inside_of(family, text, name, towers)


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


def read_cosmos3_omni(c: Fields) -> ModelSpec:
    """Cosmos 3 Omni: Qwen3-VL."""
    family = Family(text="qwen3_vl_text", names=_INSIDE)
    text = text_of(c, family)
    towers = [qwen3_vision(c.nested("vision_config"), deepstack=True)]
    return together(c, family, text, "cosmos3_omni", towers)


def read_muse_spark(c: Fields) -> ModelSpec:
    """Muse Spark: eyes and ears."""
    family = Family(text="muse_spark_text", names=_INSIDE, tied="never")
    text = text_of(c, family)
    body = vision(c.nested("vision_config"), "muse_vision", "model.vision_tower.")
    sound = _muse_sound(c.nested("audio_config"))
    between = projectors.muse(c, body, text)
    c.read.add("audio_config")
    towers = [body.parts.tower(), between.tower("projector"), sound.tower("audio tower")]
    return together(c, family, text, "muse_spark", towers)


def _muse_sound(a: Fields) -> Parts:
    """Stages of convolutions over time, each on neighbouring outputs of the one before."""
    widths = whole_numbers(a, "hidden_sizes", default=[256, 512, 1024, 2048])
    sides = whole_numbers(a, "patch_sizes", default=[16, 6, 5, 4], count=len(widths), most=2**20)
    depths = whole_numbers(a, "depths", default=[2, 2, 2, 2], count=len(widths), most=10_000)
    grow, kernel = a.factor("mlp_ratio", 4.0), a.size("conv_kernel_size", default=7, most=1024)
    parts, before = Parts("model.audio_tower."), 1
    for i, (width, side, depth) in enumerate(zip(widths, sides, depths, strict=True)):
        parts.add(f"layers.{i}.patch_embedder.proj", width, before * side, bias=True)
        parts.add(f"layers.{i}.patch_embedder.norm", width)
        stem, inner = f"layers.{i}.conv_blocks.{{}}.", int(width * grow)
        parts.add(stem + "conv", width, 1, kernel, repeats=depth, bias=True)
        parts.add(stem + "norm", width, repeats=depth)
        parts.add(stem + "mlp.fc1", inner, width, repeats=depth, bias=True)
        parts.add(stem + "mlp.fc2", width, inner, repeats=depth, bias=True)
        before = width
    out = a.size("out_hidden_size", default=8192)
    parts.add("norm", before)
    parts.add("proj", out, before, bias=True)
    parts.add("post_proj_norm", out)
    return parts


def read_pi0(c: Fields) -> ModelSpec:
    """pi0: PaliGemma without a head, and a second Gemma that writes actions; both attend to the same tokens."""
    whole = c.nested("vlm_config")
    for name in ("torch_dtype", "dtype"):
        value = c.raw(name)
        if whole.values.get(name) is None:
            whole.values = {**whole.values, name: value}
    whole.values = {**whole.values, "tie_word_embeddings": True}
    spec = read(whole, "paligemma")
    acting = c.nested("dit_config")
    usual = TEXTS["gemma"].defaults
    acting.values = {**usual, **acting.values, "vocab_size": spec.vocab, "tie_word_embeddings": True}
    second = read_gemma(acting)
    rows = second.tensor_table()
    expert = Tower(
        "action expert", tuple((row.name.replace("model.", "model.dit.", 1), row.count, row.tensor) for row in rows)
    )
    hidden, states, actions = second.hidden, c.size("max_state_dim", default=32), c.size("max_action_dim", default=32)
    parts = Parts("")
    parts.add("embed_action_time.action_in_proj", hidden, actions, bias=True)
    parts.add("embed_action_time.state_proj", hidden, states, bias=True)
    parts.add("embed_action_time.action_time_mlp_in", hidden, 2 * hidden, bias=True)
    parts.add("embed_action_time.action_time_mlp_out", hidden, hidden, bias=True)
    parts.add("action_out_proj", actions, hidden, bias=True)
    c.read |= {"chunk_size", "num_inference_steps", "min_period", "max_period", "loss_reduction", "tie_word_embeddings"}
    c.read |= {name for name in c.values if name.startswith("time_sampling")}
    return msgspec.structs.replace(spec, family="pi0", towers=(*spec.towers, expert, parts.tower("action head")))
