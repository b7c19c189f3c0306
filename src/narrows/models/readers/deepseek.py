"""DeepSeek V2, V3 and R1: latent attention, leading dense layers, shared experts, and (V3) a stored MTP layer."""

from __future__ import annotations

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import LatentAttention
from narrows.models.readers.build import PRE_NORMS, dense, model, stack
from narrows.models.readers.mtp import with_prediction
from narrows.models.spec import Layer, ModelSpec


def _mixer(c: Fields) -> LatentAttention:
    return LatentAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.maybe_size("q_lora_rank", default=1536),
        c.size("kv_lora_rank", default=512),
        c.size("qk_nope_head_dim", default=128),
        c.size("qk_rope_head_dim", default=64),
        c.size("v_head_dim", default=128),
        bias=c.flag("attention_bias", False),
    )


def _layers(
    c: Fields, first_dense: int, experts: int, top_k: int, shared: int, plain: Dense, correction: bool
) -> tuple[list[FeedForward], MixtureOfExperts]:
    layers = c.layers("num_hidden_layers")
    width = c.size("moe_intermediate_size")
    c.read.add("num_key_value_heads")  # latent attention has no KV heads of its own
    routed = c.size("n_routed_experts", default=experts)
    sparse = MixtureOfExperts(
        plain.hidden,
        routed,
        c.maybe_size("num_experts_per_tok", default=min(top_k, routed), most=routed) or routed,
        width,
        shared=width * (c.maybe_size("n_shared_experts", default=shared, least=0) or 0),
        shared_bias=plain.bias,
        correction=correction,
    )
    dense_layers = c.size("first_k_dense_replace", default=first_dense, least=0)
    every = c.size("moe_layer_freq", default=1)
    feed_forwards: list[FeedForward] = [
        sparse if i >= dense_layers and i % every == 0 else plain for i in range(layers)
    ]
    return feed_forwards, sparse


def read_deepseek_v2(c: Fields) -> ModelSpec:
    """DeepSeek-V2 and V2-Lite."""
    mixer = _mixer(c)
    plain = dense(c, bias=c.flag("mlp_bias", False))
    feed_forwards, _ = _layers(c, 0, 64, 6, 2, plain, correction=False)
    groups = stack([mixer] * len(feed_forwards), feed_forwards, PRE_NORMS)
    return model(c, groups, family="deepseek_v2", dialect="deepseek")


def read_deepseek_v3(c: Fields) -> ModelSpec:
    """DeepSeek-V3, R1 and models of the same architecture (Kimi K2)."""
    mixer = _mixer(c)
    feed_forwards, sparse = _layers(c, 3, 256, 8, 1, dense(c), correction=True)
    groups = stack([mixer] * len(feed_forwards), feed_forwards, PRE_NORMS)
    spec = model(c, groups, family="deepseek_v3", dialect="deepseek")
    return with_prediction(c, spec, Layer(mixer, sparse, PRE_NORMS, mixer.hidden))


read_kimi_k2 = read_deepseek_v3
