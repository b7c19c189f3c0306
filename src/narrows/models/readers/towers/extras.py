"""What stands before or behind the transformer inside some vision towers: mergers, pooling heads, positions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import whole_numbers


def merge_of(c: Fields, name: str = "spatial_merge_size") -> int:
    """How many patches become one: the square of a side."""
    return c.size(name, default=2, most=1024) ** 2


def window_of(c: Fields, name: str) -> int:
    """How many patches a window of two sides holds."""
    high, wide = whole_numbers(c, name, default=[2, 2], most=1024, count=2)
    return high * wide


def _pooling_head(c: Fields, body: Body) -> Body:
    """SigLIP's: one learned query over all patches."""
    hidden, inner, parts = body.hidden, body.inner, body.parts
    if not c.flag("vision_use_head", True):
        return body
    parts.parameter("head.probe", 1, 1, hidden)
    parts.parameter("head.attention.in_proj_weight", 3 * hidden, hidden)
    parts.parameter("head.attention.in_proj_bias", 3 * hidden)
    parts.add("head.attention.out_proj", hidden, hidden, bias=True)
    parts.add("head.layernorm", hidden, bias=True)
    parts.mlp("head.mlp.", hidden, inner, hidden)
    return body


def _intern(c: Fields, body: Body) -> Body:
    """A token that stands for masked patches, and a last norm, where they are used."""
    if c.flag("use_mask_token", False):
        body.parts.parameter("embeddings.mask_token", body.hidden)
    if not c.flag("use_mean_pooling", True):
        body.parts.add("layernorm", body.hidden, bias=True)
    return body


def _patch_merger(c: Fields, body: Body, out: str, norm_bias: bool) -> Body:
    """Qwen 2-VL's: neighbouring patches side by side through two linear layers."""
    merged = body.hidden * merge_of(c)
    width = c.size(out, default=3584)
    body.parts.add("merger.ln_q", body.hidden, bias=norm_bias)
    body.parts.mlp("merger.mlp.", merged, merged, width, names=("0", "2"))
    return msgspec.structs.replace(body, out=width)


def _qwen2_vl(c: Fields, body: Body) -> Body:
    return _patch_merger(c, body, "hidden_size", True)


def _qwen2_5_vl(c: Fields, body: Body) -> Body:
    return _patch_merger(c, body, "out_hidden_size", False)


def _dots(c: Fields, body: Body) -> Body:
    c.read |= {"is_causal", "post_norm", "gradient_checkpointing", "init_merger_std"}
    return _patch_merger(c, body, "hidden_size", True)


def _glm_merger(c: Fields, body: Body, out: int, inner: int) -> Body:
    """A convolution over neighbouring patches, a projection and a gated feed-forward part."""
    side, parts = c.size("spatial_merge_size", default=2, most=1024), body.parts
    parts.add("downsample", out, body.hidden, side, side, bias=True)
    parts.add("merger.proj", out, out)
    parts.add("merger.post_projection_norm", out, bias=True)
    parts.gated("merger.", out, inner)
    return msgspec.structs.replace(body, out=out)


def _glm4v(c: Fields, body: Body) -> Body:
    out = c.size("out_hidden_size", default=4096)
    return _glm_merger(c, body, out, c.size("intermediate_size", default=13696))


def _glm_ocr(c: Fields, body: Body) -> Body:
    out = c.size("out_hidden_size", default=1536)
    return _glm_merger(c, body, out, out * c.size("in_channels", default=3, most=4096))


def _glm5_next(c: Fields, body: Body) -> Body:
    out = c.size("out_hidden_size", default=1536)
    return _glm_merger(c, body, out, c.size("projection_intermediate_size", default=10240))


def _kimi_k25(c: Fields, body: Body) -> Body:
    rows, columns = c.size("pos_emb_height", default=64), c.size("pos_emb_width", default=64)
    body.parts.parameter("patch_embed.pos_emb.weight", rows, columns, body.hidden)
    return body


def _moonvit(c: Fields, body: Body) -> Body:
    rows, columns = c.size("init_pos_emb_height", default=64), c.size("init_pos_emb_width", default=64)
    body.parts.parameter("patch_embed.pos_emb.weight", rows, columns, body.hidden)
    return body


def _muse(c: Fields, body: Body) -> Body:
    rows, columns = c.size("pos_emb_height", default=32), c.size("pos_emb_width", default=32)
    body.parts.add("patch_embedder.position_embedding_table", rows * columns, body.hidden)
    return body


def _minicpm(c: Fields, body: Body) -> Body:
    """Attention and a feed-forward part over windows of patches, in the middle of the transformer."""
    hidden, parts = body.hidden, body.parts
    window = window_of(c, "window_kernel_size")
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        parts.add(f"vit_merger.self_attn.{name}", hidden, hidden, bias=True)
    parts.add("vit_merger.layer_norm1", hidden, bias=True)
    parts.add("vit_merger.pre_norm", hidden * window, bias=True)
    parts.mlp("vit_merger.", hidden * window, body.inner * window, hidden, names=("linear_1", "linear_2"))
    return body


def _ovis2(c: Fields, body: Body) -> Body:
    """A head over a vocabulary of visual tokens."""
    indicators = c.size("num_visual_indicator_tokens", default=5, least=0, most=2**20)
    vocab = c.size("vocab_size", default=16384, least=indicators + 1) - indicators
    stride = c.size("hidden_stride", default=1, most=1024) ** 2
    body.parts.add("head_linear", vocab, body.hidden * stride)
    body.parts.add("head_norm", vocab, bias=True)
    return msgspec.structs.replace(body, out=vocab + indicators)


def _depths(c: Fields) -> list[int]:
    return whole_numbers(c, "deepstack_visual_indexes", least=-(2**31))


def _granite_docling(c: Fields, body: Body) -> Body:
    """A coarse and a fine way into the decoder, each with mergers for several depths."""
    hidden, parts, out = body.hidden, body.parts, c.size("out_hidden_size", default=1024)
    side = c.size("scale_factor", default=4, least=2, most=1024)
    value = c.raw("deepstack_visual_indexes")
    depths = 3 if value is None else 0 if value == [] else len(_depths(c))
    parts.add("connector.ln_in", hidden, bias=True)
    ways = (("coarse", side), *((("fine", side // 2),) if c.flag("use_fine_route", True) else ()))
    for way, scale in ways:
        merged, stem = hidden * scale**2, f"connector.{way}."
        parts.add(stem + "projection", out, merged)
        parts.add(stem + "deepstack_mergers.{}.layer_norm", merged, repeats=depths, bias=True)
        parts.add(stem + "deepstack_mergers.{}.linear_1", out, merged, repeats=depths, bias=True)
        parts.add(stem + "deepstack_mergers.{}.linear_2", out, out, repeats=depths, bias=True)
    parts.add("connector.ln_mid", out, bias=True)
    parts.add("connector.mlp_fc2", out, out)
    parts.add("connector.ln_out", out, bias=True)
    return msgspec.structs.replace(body, out=out)


def _step3p5(c: Fields, body: Body) -> Body:
    """Two convolutions that halve the sides and double the width."""
    hidden = body.hidden
    body.parts.add("downsampler1", 2 * hidden, hidden, 3, 3, bias=True)
    body.parts.add("downsampler2", 4 * hidden, 2 * hidden, 3, 3, bias=True)
    return msgspec.structs.replace(body, out=4 * hidden)


def _inkling2(c: Fields, body: Body) -> Body:
    """A position for the class token, and two linear layers on neighbouring patches."""
    side, parts = c.size("posemb_grid_size", default=32), body.parts
    parts.parameter("embeddings.cls_position_embedding", body.hidden)
    parts.add("embeddings.position_embedding", side * side, body.hidden)
    inner, out = c.size("projection_hidden_dim", default=4096), c.size("text_hidden_size", default=4608)
    bias = c.flag("projector_bias", False)
    parts.mlp("merger.", body.hidden * merge_of(c), inner, out, names=("linear_1", "linear_2"), bias=bias)
    return msgspec.structs.replace(body, out=out)


def _hy_v4_vl(c: Fields, body: Body) -> Body:
    """Two convolutions over neighbouring patches, and a mark of the end of a line."""
    hidden, out = body.hidden, c.size("out_hidden_size", default=6144)
    side = c.size("spatial_merge_size", default=2, most=1024)
    body.parts.parameter("patch_merger.image_newline", out)
    body.parts.add("patch_merger.proj_conv", hidden * side**2, hidden, side, side, bias=True)
    body.parts.add("patch_merger.proj_out", out, hidden * side**2, 1, 1, bias=True)
    body.parts.add("patch_merger.before_rms", hidden)
    return msgspec.structs.replace(body, out=out)


EXTRAS: dict[str, Callable[[Fields, Body], Body]] = {
    "siglip_vision_model": _pooling_head,
    "siglip2_vision_model": _pooling_head,
    "phi4_multimodal_vision": _pooling_head,
    "internvl_vision": _intern,
    "qianfan_ocr_vision": _intern,
    "qwen2_vl_vision": _qwen2_vl,
    "qwen2_5_vl_vision": _qwen2_5_vl,
    "exaone4_5_vision": _qwen2_5_vl,
    "glm4v_vision": _glm4v,
    "glm4v_moe_vision": _glm4v,
    "glm_ocr_vision": _glm_ocr,
    "glm5_next_vision": _glm5_next,
    "kimi_k25_vision": _kimi_k25,
    "moonvit": _moonvit,
    "dots_vit": _dots,
    **dict.fromkeys(("minicpmv4_6_vision", "minicpmv4_7_vision", "minicpm_ocr_vision"), _minicpm),
    "muse_vision": _muse,
    "ovis2_vision": _ovis2,
    "granite_docling_vision": _granite_docling,
    "step3p5_vision": _step3p5,
    "hy_v4_vl_vision": _hy_v4_vl,
    "inkling2_vision": _inkling2,
}
