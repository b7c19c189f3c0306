"""Qwen 3.5 (three gated delta nets to one gated full attention) and Qwen3-VL, with their vision tower."""

from __future__ import annotations

import msgspec

from narrows.models.dialects import DIALECTS
from narrows.models.feedforward import FeedForward
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mixer
from narrows.models.readers.build import (
    PRE_NORMS,
    attention,
    dense,
    model,
    routed,
    stack,
    state_format,
    text_part,
)
from narrows.models.readers.qwen import delta_nets, experts
from narrows.models.readers.vision import qwen3_vision
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor


def _mixers(c: Fields, layers: int, kv_heads: int) -> tuple[list[Mixer], Attention]:
    c.read.add("attn_output_gate")  # always on, whatever the file says
    return delta_nets(c, layers, kv_heads, fused=False, state_format=state_format(c, "mamba_ssm_dtype"))


def _decoder(c: Fields, mixers: list[Mixer], full: Attention, part: FeedForward, family: str) -> ModelSpec:
    """The decoder and its prediction layer: one full-attention layer after a projection of hidden state and token."""
    spec = model(c, stack(mixers, [part] * len(mixers), PRE_NORMS), family=family, dialect="qwen3_5")
    predicted = c.maybe_size("mtp_num_hidden_layers", default=0, least=0, most=16) or 0
    if not predicted:
        return spec
    layer, hidden = Layer(full, part, PRE_NORMS, full.hidden), full.hidden
    names = DIALECTS["qwen3_5"]
    inside = [(names[t.role].replace("model.", "mtp.", 1), predicted, t) for t in layer.tensors()]
    around = [
        ("mtp.fc.weight", 1, Tensor("mtp.projection", (hidden, 2 * hidden), "plain", hidden)),
        *(
            (f"mtp.{name}.weight", 1, Tensor("mtp.norm", (hidden,), "vector"))
            for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
        ),
    ]
    tower = Tower("MTP layer", (*inside, *around), served=False, unique=False, layers=(layer,) * predicted)
    return msgspec.structs.replace(spec, towers=(tower,))


def read_qwen3_5_text(c: Fields) -> ModelSpec:
    """Qwen 3.5's dense decoder."""
    mixers, full = _mixers(c, c.layers("num_hidden_layers"), 4)
    return _decoder(c, mixers, full, dense(c), "qwen3_5")


def read_qwen3_5_moe_text(c: Fields) -> ModelSpec:
    """Qwen 3.5's sparse decoder: every layer has routed experts and a gated shared one."""
    mixers, full = _mixers(c, c.layers("num_hidden_layers"), 2)
    part = experts(c, 256, 8, c.size("shared_expert_intermediate_size", default=512))
    c.read.add("intermediate_size")
    return _decoder(c, mixers, full, part, "qwen3_5_moe")


def _with_vision(c: Fields, text: ModelSpec, deepstack: bool) -> ModelSpec:
    tower = qwen3_vision(c.nested("vision_config"), deepstack=deepstack)
    return msgspec.structs.replace(text, dialect=f"{text.dialect}_vl", towers=(tower, *text.towers))


def read_qwen3_5(c: Fields) -> ModelSpec:
    """Qwen 3.5 with its vision tower."""
    return _with_vision(c, read_qwen3_5_text(text_part(c)), deepstack=False)


def read_qwen3_5_moe(c: Fields) -> ModelSpec:
    """Qwen 3.5, sparse, with its vision tower."""
    return _with_vision(c, read_qwen3_5_moe_text(text_part(c)), deepstack=False)


def read_qwen3_vl(c: Fields) -> ModelSpec:
    """Qwen3-VL, dense: Qwen 3's decoder without windows."""
    text = text_part(c)
    layers, bias = text.layers("num_hidden_layers"), text.flag("attention_bias", False)
    full = attention(text, kv_heads=32, head_dim=128, qk_norm=True, qkv_bias=bias, out_bias=bias)
    spec = model(text, stack([full] * layers, [dense(text)] * layers, PRE_NORMS), family="qwen3_vl")
    return _with_vision(c, spec, deepstack=True)


def read_qwen3_vl_moe(c: Fields) -> ModelSpec:
    """Qwen3-VL, sparse."""
    text = text_part(c)
    text.read.add("sliding_window")  # attention sees everything, whatever the file says
    layers, bias = text.layers("num_hidden_layers"), text.flag("attention_bias", False)
    full = attention(text, kv_heads=16, qk_norm=True, qkv_bias=bias, out_bias=bias)
    parts = routed(text, layers, experts(text, 60, 4), dense(text))
    return _with_vision(c, model(text, stack([full] * layers, parts, PRE_NORMS), family="qwen3_vl_moe"), deepstack=True)
