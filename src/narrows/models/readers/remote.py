"""Readers of decoders whose classes stand beside their files on the hub (see `remote_table`)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from narrows.models.feedforward import FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Looped, Mixer, linear
from narrows.models.readers.build import FULL, SLIDING, outside, stack
from narrows.models.readers.latent_variants import mimo_v2, read_minimax_m3_vl_text
from narrows.models.readers.like_llama import build, read_stablelm
from narrows.models.readers.linear import read_minimax
from narrows.models.readers.mtp import with_prediction
from narrows.models.readers.remote_table import REMOTE
from narrows.models.readers.spelling import respell
from narrows.models.readers.traits import dense_of, experts_of
from narrows.models.spec import ModelSpec
from narrows.text import BadInput, Text


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them."""
    remote = REMOTE[model_type]
    respell(c, dict(remote.names))
    c.read.update(remote.idle)
    return build(c, model_type, remote.traits)


def parts_of(spec: ModelSpec, choose: Callable[[int], FeedForward]) -> ModelSpec:
    """The model with the feed-forward part of every layer chosen by its index."""
    mixers = [layer.mixer for layer in spec.each_layer]
    groups = stack(mixers, [choose(i) for i in range(spec.layers)], spec.groups[0].layer.norms)
    return msgspec.structs.replace(spec, groups=groups)


def read_deepseek(c: Fields) -> ModelSpec:
    """DeepSeek MoE 16B: softmax attention with experts; every `moe_layer_freq`-th layer is sparse after the first."""
    traits = REMOTE["deepseek"].traits
    assert traits.experts is not None
    spec, every = read(c, "deepseek"), c.size("moe_layer_freq", default=1)
    first = c.size("first_k_dense_replace", default=0, least=0)
    if c.raw("n_routed_experts") is None:
        plain = dense_of(c, traits)
        return parts_of(spec, lambda _: plain)
    sparse = experts_of(c, traits.experts)
    if not first and every == 1:
        return spec
    dense = dense_of(c, traits)
    return parts_of(spec, lambda i: sparse if i >= first and i % every == 0 else dense)


def read_minicpm(c: Fields) -> ModelSpec:
    """MiniCPM 1, 2 and 4; a file that names experts has them in every layer (MiniCPM-MoE)."""
    number = c.maybe_size("num_experts", default=0, least=0) or 0
    spec = read(c, "minicpm")
    if not number:
        return spec
    top_k = c.size("num_experts_per_tok", default=min(2, number), most=number)
    part = MixtureOfExperts(spec.hidden, number, top_k, c.size("intermediate_size"))
    return msgspec.structs.replace(parts_of(spec, lambda _: part), dialect="minicpm_moe")


def read_mimo(c: Fields) -> ModelSpec:
    """MiMo 7B: Qwen 2 with prediction layers, which share its embedding and head."""
    if c.flag("use_sliding_window", False):
        raise BadInput("this mimo config slides over a window, which narrows does not read; take the original config")
    spec = read(c, "mimo")
    return with_prediction(c, spec, spec.groups[-1].layer, own_vocab=False)


def read_stablelm_epoch(c: Fields) -> ModelSpec:
    """StableLM as its files said before transformers had it."""
    respell(c, {"layer_norm_eps": ("norm_eps",)})
    c.read |= {"rope_pct", "num_heads"}
    return msgspec.structs.replace(read_stablelm(c), family="stablelm_epoch")


def read_minimax_text_01(c: Fields) -> ModelSpec:
    """MiniMax-Text-01 and M1: `attn_type_list` says 1 for softmax, 0 for lightning attention."""
    layers, listed = c.layers("num_hidden_layers"), c.raw("attn_type_list")
    if listed is not None:
        if not isinstance(listed, list) or any(one not in (0, 1) for one in listed) or len(listed) != layers:
            raise BadInput(
                "config field '{field}' must be a list of {count} zeros and ones", field="attn_type_list", count=layers
            )
        c.values = {**c.values, "layer_types": ["full_attention" if one else "linear_attention" for one in listed]}
    if c.maybe_size("shared_intermediate_size", default=0, least=0):
        raise BadInput(
            "this MiniMax config has a shared expert, which narrows does not read yet; take the original config"
        )
    c.read |= {"shared_moe_mode", "postnorm", "num_nextn_predict_layers"}
    return read_minimax(c)


read_minimax_m1 = read_minimax_text_01


def read_minimax_m3(c: Fields) -> ModelSpec:
    """MiniMax M3's decoder on its own; its file names prediction layers that it does not hold."""
    c.read |= {"num_nextn_predict_layers"}
    return read_minimax_m3_vl_text(c)


def read_mimo_v2(c: Fields) -> ModelSpec:
    """MiMo V2.5 and 2.6: V2 Flash with windows whose heads the file names freely, and towers in some files."""
    c.read |= {"attention_projection_layout", "num_nextn_predict_layers", "add_swa_attention_sink_bias"}
    c.read |= {"add_full_attention_sink_bias", "attention_value_scale", "vision_config", "audio_config"}
    spec = mimo_v2(c, "mimo_v2", _windows)
    missing = [name for name in ("vision_config", "audio_config") if c.raw(name)]
    notes = [
        Text("the encoder of '{field}' is not read yet, so that its weights are not counted", field=name)
        for name in missing
    ]
    return msgspec.structs.replace(spec, assumptions=(*spec.assumptions, *notes)) if notes else spec


def _windows(c: Fields, full: Attention) -> Attention:
    heads = c.size("swa_num_attention_heads", default=full.heads)
    kv = c.size("swa_num_key_value_heads", default=full.kv_heads)
    c.divide(heads, kv, "swa_num_attention_heads", "swa_num_key_value_heads")
    if not c.flag("add_swa_attention_sink_bias", True) or c.flag("add_full_attention_sink_bias", False):
        raise BadInput("this mimo_v2 config has sinks elsewhere than in its windows, which narrows does not read yet")
    return msgspec.structs.replace(
        full,
        heads=heads,
        kv_heads=kv,
        head_dim=c.size("swa_head_dim", default=full.head_dim),
        value_dim=c.size("swa_v_head_dim", default=full.value_dim),
    )


def read_plamo3(c: Fields) -> ModelSpec:
    """PLaMo 3: every `sliding_window_pattern`-th layer is full, the others slide over `window_size` tokens."""
    respell(c, {"sliding_window": ("window_size",)})
    listed, layers = c.raw("interleaved_sliding_window"), c.layers("num_hidden_layers")
    every = c.size("sliding_window_pattern", default=8)
    if isinstance(listed, list) and len(listed) == layers and not c.has("layer_types"):
        c.values = {**c.values, "layer_types": [FULL if one is None else SLIDING for one in listed]}
    remote = REMOTE["plamo3"]
    c.read.update(remote.idle)
    return build(c, "plamo3", msgspec.structs.replace(remote.traits, full_every=every))


def read_ouro(c: Fields) -> ModelSpec:
    """Ouro: all layers run `total_ut_steps` times for every token, each time with keys and values of its own.

    Norms stand before and after each part; a gate says when a token needs no further turn.
    """
    spec = read(c, "ouro")
    loops = c.size("total_ut_steps", default=4, most=1000)
    gate = linear("after.exit", 1, spec.hidden, bias=True)
    spec = msgspec.structs.replace(spec, extra=outside(after=gate))
    if loops == 1:
        return spec
    turned: dict[Mixer, Looped] = {}
    mixers = [layer.mixer for layer in spec.each_layer]
    looped = [turned.setdefault(mixer, Looped(mixer, loops)) for mixer in mixers if isinstance(mixer, Attention)]
    layer = spec.groups[0].layer
    return msgspec.structs.replace(spec, groups=stack(looped, [layer.feed_forward] * spec.layers, layer.norms))
