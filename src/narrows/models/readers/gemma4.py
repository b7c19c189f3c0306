"""Gemma 4: wider heads in full layers, inputs of their own per layer, borrowed keys and values, experts beside."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import FULL, SANDWICH_NORMS, SLIDING, attention, full_every, grouped, model, text_part
from narrows.models.readers.gemma_audio import gemma4_audio
from narrows.models.readers.vision import gemma4_vision
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.text import BadInput

_EXPERT_NORMS = ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")


def _kinds(c: Fields, layers: int) -> list[str]:
    """Every sixth layer is full, and the last one always."""
    return [*full_every(c, layers, 6)[:-1], FULL]


def _full_sizes(c: Fields, layers: int, kinds: list[str], same: bool) -> list[dict[str, int]]:
    """Head width and KV heads of each layer where they differ from the sliding ones."""
    stated = c.raw("per_layer_config")
    if stated is None:
        sizes = {"head_dim": c.size("global_head_dim", default=512)}
        kv = c.maybe_size("num_global_key_value_heads", default=None)
        if kv is not None and same:
            sizes["kv_heads"] = kv
        return [sizes if kind == FULL else {} for kind in kinds]
    c.read |= {"global_head_dim", "num_global_key_value_heads"}
    found: list[dict[str, int]] = [{} for _ in range(layers)]
    entries: dict[Any, Any] = stated if isinstance(stated, dict) else {}
    for key, value in entries.items():
        if not (isinstance(key, str) and key.isdecimal() and int(key) < layers and isinstance(value, dict)):
            raise BadInput("config field '{field}' must be an object of fields", field=c.path + "per_layer_config")
        own = Fields(value, f"{c.path}per_layer_config.{key}.")
        for name, to in (("head_dim", "head_dim"), ("num_key_value_heads", "kv_heads")):
            size = own.maybe_size(name, default=None)
            if size is not None:
                found[int(key)][to] = size
    return found


def borrowing(c: Fields, kinds: list[str], default: int = 0) -> list[bool]:
    """The last `num_kv_shared_layers` layers take keys and values from the last layer of their kind before them."""
    shared = c.size("num_kv_shared_layers", default=default, least=0, most=len(kinds))
    first = len(kinds) - shared
    if shared and set(kinds[:first]) != set(kinds):
        raise BadInput(
            "config field '{field}' leaves no layer of each kind that keeps keys and values; the file contradicts "
            "itself",
            field=c.path + "num_kv_shared_layers",
        )
    return [i >= first for i in range(len(kinds))]


def read_gemma4_text(c: Fields) -> ModelSpec:
    """The decoder."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    kinds, same = _kinds(c, layers), c.flag("attention_k_eq_v", False)
    sliding = attention(c, kv_heads=4, head_dim=256, qk_norm=True, qkv_bias=bias, out_bias=bias)
    window = c.size("sliding_window", default=512)
    if c.raw("use_bidirectional_attention") == "all":
        window = window // 2 + 1
    borrowed_layers = borrowing(c, kinds)
    mixers: list[Attention] = []
    for kind, sizes, borrowed in zip(kinds, _full_sizes(c, layers, kinds, same), borrowed_layers, strict=True):
        own = {"window": window} if kind == SLIDING else {"k_is_v": same}
        mixers.append(msgspec.structs.replace(sliding, **sizes, **own, borrowed=borrowed))
        c.divide(mixers[-1].heads, mixers[-1].kv_heads, "num_attention_heads", "num_key_value_heads")
    width, double = c.size("intermediate_size"), c.flag("use_double_wide_mlp", False)
    each = c.maybe_size("hidden_size_per_layer_input", default=256, least=0) or 0
    rows = c.size("vocab_size_per_layer_input", default=262144)
    names = SANDWICH_NORMS.names + (("post_per_layer_input_norm",) if each else ())
    experts = c.flag("enable_moe_block", False)
    if experts:
        names += _EXPERT_NORMS
    else:
        c.read |= {"num_experts", "top_k_experts", "moe_intermediate_size"}
    made = []
    for mixer, borrowed in zip(mixers, borrowed_layers, strict=True):
        wide = width * (2 if double and borrowed else 1)
        part = _experts(c, mixer.hidden, wide) if experts else Dense(mixer.hidden, wide)
        made.append(Layer(mixer, part, Norms(names), mixer.hidden, each))
    return model(
        c,
        grouped(made),
        family="gemma4",
        dialect="gemma4",
        tied=True,
        per_layer=(rows, each) if each else (0, 0),
    )


def _experts(c: Fields, hidden: int, dense: int) -> FeedForward:
    """Routed experts beside the dense part, which stands as the shared one."""
    number = c.size("num_experts")
    return MixtureOfExperts(
        hidden,
        number,
        c.size("top_k_experts", most=number),
        c.size("moe_intermediate_size"),
        shared=dense,
        router_scales=True,
    )


def read_gemma4(c: Fields) -> ModelSpec:
    """With its towers for pictures and sound, where the file has them."""
    text = read_gemma4_text(text_part(c, tied=True))
    c.read |= {name for name in c.values if name.endswith(("_token_id", "_token_index"))}
    c.read.add("vision_soft_tokens_per_image")
    towers = () if c.raw("vision_config") is None else gemma4_vision(c.nested("vision_config"), text.hidden)
    heard = () if c.raw("audio_config") is None else gemma4_audio(c.nested("audio_config"), text.hidden)
    return msgspec.structs.replace(text, dialect="gemma4_vl", towers=towers + heard)
