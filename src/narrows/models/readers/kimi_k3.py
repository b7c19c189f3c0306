"""Kimi K3: Kimi Linear's layers with gates on every attention, experts in a narrower space, and residuals that attend.

Source: the weight map and headers of the published file, whose 2,779,931,837,184 elements (unpacked) a test pins.
"""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import KimiDelta, Mixer, linear
from narrows.models.readers.build import PRE_NORMS, dense, grouped, model, outside, text_part, untied
from narrows.models.readers.deepseek import Ranks, latent_attention
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_kimi_k3(c: Fields) -> ModelSpec:
    """Kimi K3 with its picture encoder, where the file has one."""
    text = text_part(c)
    spec = _decoder(text)
    c.read |= {"ignore_index", "image_placeholder", "media_placeholder_token_id", "vision_config"}
    c.read |= {"quantization_config", "torch_dtype", "dtype", "tie_word_embeddings"}
    if not c.raw("vision_config"):
        return spec
    return msgspec.structs.replace(spec, towers=(_tower(c.nested("vision_config"), spec.hidden),))


def _decoder(c: Fields) -> ModelSpec:
    layers = c.layers("num_hidden_layers")
    sizes = c.nested("linear_attn_config")
    full = latent_attention(c, Ranks(None))
    if c.flag("mla_use_output_gate", False):
        gate = linear("mla.gate", full.heads * full.value, full.hidden, shards=full.heads)
        full = msgspec.structs.replace(full, beside=tuple(gate))
    heads, width = sizes.size("num_heads"), sizes.size("head_dim")
    delta = KimiDelta(
        full.hidden,
        heads,
        width,
        sizes.size("short_conv_kernel_size", default=4),
        plain_output_gate=sizes.flag("use_full_rank_gate", False),
        decays=max(heads, width),
        exact="float32",
    )
    # numbered from 1 in the file
    at = {index - 1 for index in sizes.indices("full_attn_layers")}
    sizes.read |= {"kda_layers", "gate_lower_bound"}
    sparse, first = _experts(c, full.hidden), c.size("first_k_dense_replace", default=1, least=0)
    if c.size("moe_layer_freq", default=1) != 1:
        raise BadInput("this kimi_k3 config has experts in some layers only, which narrows does not read yet")
    plain = dense(c)
    streams = c.maybe_size("attn_res_block_size", default=None) is not None
    normed = bool(sparse.latent) and c.flag("latent_moe_use_norm", False)

    def layer(index: int) -> Layer:
        mixer: Mixer = full if index in at else delta
        part: FeedForward = sparse if index >= first else plain
        beside = _scores("branch.attention", full.hidden) + _scores("branch.mlp", full.hidden) if streams else []
        if normed and part is sparse:
            beside.append(Tensor("latent.norm", (sparse.latent,), "vector"))
        return Layer(mixer, part, PRE_NORMS, full.hidden, beside=tuple(beside))

    c.read |= {"num_expert_group", "moe_renormalize", "mla_use_nope", "moe_router_activation_func", "use_grouped_topk"}
    c.read |= {"num_nextn_predict_layers", "latent_moe_use_norm"} | {n for n in c.values if n.startswith("activation_")}
    if isinstance(c.raw("quantization_config"), dict):
        _only_experts(c)
    untied(c)
    return model(
        c,
        grouped(layer(index) for index in range(layers)),
        family="kimi_k3",
        dialect="kimi_k3",
        extra=outside(after=_scores("after.branch", full.hidden) if streams else []),
    )


def _experts(c: Fields, hidden: int) -> MixtureOfExperts:
    width, number = c.size("moe_intermediate_size"), c.size("num_experts")
    return MixtureOfExperts(
        hidden,
        number,
        c.size("num_experts_per_token", "num_experts_per_tok", most=number),
        width,
        shared=width * (c.maybe_size("num_shared_experts", default=1, least=0) or 0),
        correction=True,
        latent=c.maybe_size("routed_expert_hidden_size", default=None) or 0,
    )


def _scores(role: str, hidden: int) -> list[Tensor]:
    """What weighs earlier blocks of layers for the next one: a norm and a score."""
    return [Tensor(f"{role}.norm", (hidden,), "vector"), Tensor(f"{role}.score", (1, hidden), "plain")]


def _only_experts(c: Fields) -> None:
    """Its compressed-tensors file packs the routed experts as MXFP4 and nothing else, whatever its targets say."""
    stated = c.nested("quantization_config")
    if stated.raw("format") == "mxfp4-pack-quantized":
        c.values = {**c.values, "quantization_config": {"quant_method": "mxfp4"}}
        c.inner.pop("quantization_config", None)


def _tower(c: Fields, text: int) -> Tower:
    """MoonViT without biases, narrower than its attention; the projector reads four patches at once."""
    hidden, inner = c.size("vt_hidden_size"), c.size("vt_intermediate_size")
    wide, patch, count = (
        c.size("qkv_hidden_size", default=hidden),
        c.size("patch_size"),
        c.layers("vt_num_hidden_layers"),
    )
    grid = c.size("init_pos_emb_height") * c.size("init_pos_emb_width")
    parts = Parts("vision_tower.")
    parts.add("patch_embed.proj", hidden, 3, patch, patch)
    parts.add("patch_embed.pos_emb", grid, hidden)
    for name, *shape in (
        ("wqkv", 3 * wide, hidden),
        ("wo", hidden, wide),
        ("mlp.fc0", inner, hidden),
        ("mlp.fc1", hidden, inner),
        ("norm0", hidden),
        ("norm1", hidden),
    ):
        parts.add(f"encoder.blocks.{{}}.{name}", *shape, repeats=count)
    parts.add("encoder.final_layernorm", hidden)
    merged = 4 * hidden
    parts.prefix = "mm_projector."
    parts.add("linear_1", merged, merged)
    parts.add("linear_2", text, merged)
    parts.add("post_norm", text)
    return parts.tower()
