"""Step 3, whose queries are of low rank; Step 3.5 Flash: more query heads where attention slides, a gate per head."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import FeedForward
from narrows.models.fields import Fields
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, attention, dense, mixture, model, stack
from narrows.models.readers.mtp import prediction_layer
from narrows.models.readers.spelling import respell
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_step3p5(c: Fields) -> ModelSpec:
    """Files list kinds for the prediction layers too, behind those of the layers."""
    respell(
        c,
        {
            "num_key_value_heads": ("num_attention_groups",),
            "n_routed_experts": ("moe_num_experts", "num_experts"),
            "num_experts_per_tok": ("moe_top_k",),
            "share_expert_dim": ("share_expert_dims",),
            "max_position_embeddings": ("max_seq_len",),
        },
    )
    layers = c.layers("num_hidden_layers", default=45)
    ahead = c.maybe_size("num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=16) or 0
    full = attention(c, kv_heads=8, head_dim=128, qk_norm=True, gate="head", qkv_bias=False)
    other = c.nested("attention_other_setting") if c.raw("attention_other_setting") else Fields({})
    other.read.add("attention_type")
    heads = c.maybe_size("num_sliding_attention_heads", default=None) or other.size(
        "num_attention_heads", default=full.heads
    )
    kv = other.size("num_attention_groups", "num_key_value_heads", default=full.kv_heads)
    c.divide(heads, kv, "attention_other_setting.num_attention_heads", "attention_other_setting.num_attention_groups")
    window = c.maybe_size("sliding_window", default=None)
    sliding = msgspec.structs.replace(
        full, heads=heads, kv_heads=kv, head_dim=other.size("head_dim", default=full.head_dim), window=window
    )
    kinds = _kinds(c, layers, ahead)
    sparse = mixture(
        c,
        full.hidden,
        c.size("moe_intermediate_size", default=1280),
        number=288,
        top_k=8,
        names=("n_routed_experts",),
        shared=c.size("share_expert_dim", default=1280),
        correction=True,
    )
    at, plain = _sparse_layers(c, layers), dense(c)
    parts: list[FeedForward] = [sparse if i in at else plain for i in range(layers + ahead)]
    mixers = [sliding if kind == SLIDING else full for kind in kinds]
    c.read |= {"att_impl_type", "use_moe", "use_mtp", "norm_expert_weight", "use_qk_norm", "use_head_wise_attn_gate"}
    c.read |= {name for name in c.values if name.startswith(("moe_router_", "swiglu_limits", "use_rope_layers"))}
    c.read |= {"use_moe_router_bias", "need_fp32_gate", "partial_rotary_factors", "yarn_only_types", "n_shared_experts"}
    c.read |= {"moe_every_n_layer", "moe_layer_offset", "max_seq_len", "sink", "zero_centered", "num_experts"}
    groups = stack(mixers[:layers], parts[:layers], PRE_NORMS)
    spec = model(c, groups, family="step3p5", dialect="step3p5")
    towers = tuple(
        _predicting(layers + i, Layer(mixers[layers + i], parts[layers + i], PRE_NORMS, full.hidden), spec.vocab)
        for i in range(ahead)
    )
    return msgspec.structs.replace(spec, towers=towers) if towers else spec


def read_step3_text(c: Fields) -> ModelSpec:
    """Step 3's decoder: all query heads share one head of keys and values, and come through a narrow projection."""
    respell(
        c,
        {
            "num_key_value_heads": ("num_attention_groups",),
            "num_experts_per_tok": ("moe_top_k",),
            "max_position_embeddings": ("max_seq_len",),
        },
    )
    layers = c.layers("num_hidden_layers", default=61)
    mixer = attention(c, kv_heads=1, head_dim=256, query_rank=c.size("share_q_dim", default=2048))
    sparse = mixture(
        c,
        mixer.hidden,
        c.size("moe_intermediate_size", default=5120),
        number=48,
        top_k=3,
        names=("moe_num_experts",),
        shared=c.size("share_expert_dim", default=5120),
    )
    if c.raw("moe_layers_enum") is None:
        c.values = {**c.values, "moe_layers_enum": list(range(4, 60))}
    at, plain = _sparse_layers(c, layers), dense(c)
    c.read |= {"use_moe", "norm_expert_weight", "first_k_dense_replace", "moe_layers_enum"}
    parts: list[FeedForward] = [sparse if i in at else plain for i in range(layers)]
    return model(c, stack([mixer] * layers, parts, PRE_NORMS), family="step3_text", dialect="step3")


def _kinds(c: Fields, layers: int, ahead: int) -> list[str]:
    stated = c.raw("layer_types")
    if isinstance(stated, list) and len(stated) == layers and ahead:
        c.values = {**c.values, "layer_types": [*stated, *[SLIDING] * ahead]}
    return c.kinds("layer_types", layers + ahead, (SLIDING, FULL)) or [FULL] * (layers + ahead)


def _sparse_layers(c: Fields, layers: int) -> frozenset[int]:
    """Layers with experts: `moe_layers_enum` lists them, else all from `first_k_dense_replace` (3) on."""
    listed: Any = c.raw("moe_layers_enum")
    first = c.size("first_k_dense_replace", default=3, least=0)
    if listed is None:
        return frozenset(range(first, layers))
    items = listed.split(",") if isinstance(listed, str) else listed
    found = [str(item).strip() for item in items] if isinstance(items, list) else ["?"]
    if len(found) > 10_000 or any(not (one.isascii() and one.isdecimal() and len(one) < 6) for one in found):
        raise BadInput("config field '{field}' must be a list of layer numbers", field=c.path + "moe_layers_enum")
    return frozenset(int(one) for one in found)


def _predicting(index: int, layer: Layer, vocab: int) -> Tower:
    """A prediction layer with a head of its own and the model's embedding (as the published file holds three)."""
    tower = prediction_layer(index, layer, 0, "step3p5")
    head = Tensor("mtp.head", (vocab, layer.hidden), "plain", vocab)
    own = (f"model.layers.{index}.transformer.shared_head.output.weight", 1, head)
    return msgspec.structs.replace(tower, tensors=(*tower.tensors, own))
