"""Ways into a decoder that are small transformers themselves: learned queries that look at a tower's output."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.extras import merge_of
from narrows.models.readers.towers.others import attention
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.spec import ModelSpec
from narrows.text import BadInput


def aria(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Aria: as many learned queries as the finest cut of an image needs, one cross-attention, a feed-forward part."""
    parts, wide = Parts("multi_modal_projector."), body.width
    stated: Any = c.raw("projector_patch_to_query_dict")
    stated = {"1225": 128, "4900": 256} if stated is None else stated
    c.read.add("max_value_projector_patch_to_query_dict")
    counts = list(stated.values()) if isinstance(stated, dict) and stated else [0]
    if any(isinstance(one, bool) or not isinstance(one, int) or not 0 < one < 2**31 for one in counts):
        raise BadInput(
            "config field '{field}' must be an object of fields", field=c.path + "projector_patch_to_query_dict"
        )
    parts.parameter("query", max(counts), wide)
    for name in ("q_proj", "k_proj", "v_proj"):
        parts.add(f"cross_attn.{name}", wide, wide)
    parts.parameter("cross_attn.multihead_attn.in_proj_weight", 3 * wide, wide)
    parts.parameter("cross_attn.multihead_attn.in_proj_bias", 3 * wide)
    parts.add("cross_attn.multihead_attn.out_proj", wide, wide, bias=True)
    parts.add("cross_attn.linear", wide, wide, bias=True)
    for name in ("cross_attn.layer_norm", "cross_attn.layer_norm_kv", "layer_norm"):
        parts.add(name, wide, bias=True)
    parts.mlp("feed_forward.", wide, text.hidden, text.hidden, names=("linear_in", "linear_out"), bias=False)
    return parts


def ernie4_5_vl_moe(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """ERNIE 4.5 VL: neighbouring patches side by side, then neighbouring frames."""
    parts, v = Parts("model.resampler_model."), c.nested("vision_config")
    near = body.width * merge_of(v)
    frames = near * v.size("temporal_merge_size", default=2, most=1024)
    for stem, inner in (("spatial_linear.", near), ("temporal_linear.", frames)):
        parts.mlp(stem, inner, near, near, names=("0", "2"))
        parts.add(stem + "3", near, bias=True)
    parts.add("mlp", text.hidden, near, bias=True)
    parts.add("after_norm", text.hidden)
    return parts


def idefics2(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Idefics 2: a gated projection, then layers of learned queries over it."""
    parts, p = Parts("model.connector."), c.nested("perceiver_config")
    hidden, depth = text.hidden, p.layers("resampler_depth", default=3)
    heads, width = p.size("resampler_n_heads", default=16), p.size("resampler_head_dim", default=96)
    kv = p.size("num_key_value_heads", default=4)
    inner = c.nested("text_config").size("intermediate_size", default=14336)
    parts.gated("modality_projection.", body.width, inner, hidden)
    stem = "perceiver_resampler."
    parts.parameter(stem + "latents", p.size("resampler_n_latents", default=64), hidden)
    layer = stem + "layers.{}."
    for name in ("input_latents_norm", "input_context_norm", "post_attention_layernorm"):
        parts.add(layer + name, hidden, repeats=depth)
    for name, rows in (("q_proj", heads * width), ("k_proj", kv * width), ("v_proj", kv * width)):
        parts.add(f"{layer}self_attn.{name}", rows, hidden, repeats=depth)
    parts.add(layer + "self_attn.o_proj", hidden, heads * width, repeats=depth)
    parts.gated(layer + "mlp.", hidden, 4 * hidden, repeats=depth)
    parts.add(stem + "norm", hidden)
    return parts


def molmo2(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Molmo 2: attention that pools the outputs of several layers, and a gated feed-forward part."""
    parts, a = Parts("model.vision_backbone."), c.nested("adapter_config")
    name = "vit_layers" if a.raw("vit_layers") is not None else "vision_feature_layer"
    count = 2 if a.raw(name) is None else len(whole_numbers(a, name, least=-(2**31)))
    hidden, inner = a.size("hidden_size", default=1152), a.size("intermediate_size", default=18944)
    attention(a, parts, "image_pooling_2d.", count * hidden, hidden)
    bias = a.flag("mlp_bias", False)
    for one in ("gate_proj", "up_proj"):
        parts.add(f"image_projector.{one}", inner, hidden, bias=bias)
    parts.add("image_projector.down_proj", a.size("text_hidden_size", default=3584), inner)
    return parts


def lfm3_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """LFM3-VL: a norm, neighbouring patches side by side, two linear layers."""
    parts = Parts("model.multi_modal_projector.")
    inner = c.size("projector_hidden_size", default=4096)
    parts.add("layer_norm", body.width, bias=True)
    wide = body.width * merge_of(c.nested("vision_config"))
    bias = c.flag("projector_bias", True)
    parts.mlp("", wide, inner, text.hidden, names=("linear_1", "linear_2"), bias=bias)
    return parts


def nemotron_h_omni(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Nemotron 3 Omni: neighbouring patches side by side, a norm, two linear layers; no sound."""
    if c.raw("audio_config", "sound_config") is not None:
        raise BadInput(
            "this nemotron_h_omni config has an audio tower, which narrows does not read yet; set 'audio_config' to "
            "null to plan without it"
        )
    parts = Parts("")
    wide = c.size("vision_hidden_size", "vit_hidden_size", default=1280)
    if (c.nested("text_config").maybe_size("num_nextn_predict_layers", default=0, least=0) or 0) > 0:
        parts.add("vision_projector.vision_final_layernorm", wide, bias=True)
    inner = wide * max(1, int(1 / c.factor("downsample_ratio", 0.5))) ** 2
    parts.add("mlp1.0", inner)
    middle = c.size("projector_hidden_size", default=4096)
    parts.mlp("mlp1.", inner, middle, text.hidden, names=("1", "3"), bias=False)
    return parts
