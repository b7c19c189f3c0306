"""Decoders with DeepSeek's latent attention: DeepSeek V2 to V3.2, GLM 4.7 Flash and 5, MiniCPM 3.

V2 and later have leading dense layers and shared experts, V3 a stored MTP layer, V3.2 a sparse indexer.
"""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import LatentAttention
from narrows.models.readers.build import PRE_NORMS, dense, model, stack, which_sparse
from narrows.models.readers.mtp import with_prediction
from narrows.models.spec import Layer, ModelSpec


class Ranks(msgspec.Struct, frozen=True):
    """Defaults of the latent attention's sizes; index: heads and head dim of the sparse indexer, where there is one."""

    query: int | None = 1536
    latent: int = 512
    nope: int = 128
    rope: int = 64
    value: int = 128
    index: tuple[int, int] | None = None


_DEEPSEEK = Ranks()


def latent_attention(c: Fields, ranks: Ranks = _DEEPSEEK) -> LatentAttention:
    """The attention of a config, with the architecture's defaults."""
    # latent attention has no KV heads of its own; head_dim and qk_head_dim repeat one of its sizes
    c.read |= {"num_key_value_heads", "head_dim", "qk_head_dim"}
    c.read |= {name for name in c.values if name.startswith("index")}
    heads, dim = ranks.index or (0, 0)
    return LatentAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        c.maybe_size("q_lora_rank", default=ranks.query),
        c.size("kv_lora_rank", default=ranks.latent),
        c.size("qk_nope_head_dim", default=ranks.nope),
        c.size("qk_rope_head_dim", default=ranks.rope, least=0),
        c.size("v_head_dim", default=ranks.value),
        bias=c.flag("attention_bias", False),
        index_heads=c.size("index_n_heads", default=heads) if heads else 0,
        index_dim=c.size("index_head_dim", default=dim) if dim else 0,
        index_top_k=c.maybe_size("index_topk", default=2048, least=0) or 0 if heads else 0,
    )


class _Experts(msgspec.Struct, frozen=True):
    """Defaults of the mixture of experts."""

    dense: int
    number: int
    top_k: int
    shared: int
    correction: bool = True


def _layers(c: Fields, plain: Dense, of: _Experts) -> tuple[list[FeedForward], MixtureOfExperts]:
    """One feed-forward per layer: by `mlp_layer_types`, else dense ones first. The sparse one besides."""
    layers = c.layers("num_hidden_layers")
    width = c.size("moe_intermediate_size")
    number = c.size("n_routed_experts", "num_local_experts", default=of.number)
    sparse = MixtureOfExperts(
        plain.hidden,
        number,
        c.maybe_size("num_experts_per_tok", default=min(of.top_k, number), most=number) or number,
        width,
        shared=width * (c.maybe_size("n_shared_experts", default=of.shared, least=0) or 0),
        shared_bias=plain.bias,
        correction=of.correction,
    )
    dense_layers = c.size("first_k_dense_replace", default=of.dense, least=0)
    every = c.size("moe_layer_freq", default=1)
    return [sparse if one else plain for one in which_sparse(c, layers, dense_layers, every)], sparse


def sparse_layers(c: Fields, number: int) -> tuple[list[FeedForward], MixtureOfExperts]:
    """The feed-forward of every layer, and the sparse one besides.

    Without a word in the file the first layer is dense, and a token goes to 8 of `number` experts and a shared one.
    """
    return _layers(c, dense(c), _Experts(1, number, 8, 1))


def read_deepseek_v2(c: Fields) -> ModelSpec:
    """DeepSeek-V2 and V2-Lite."""
    mixer = latent_attention(c)
    plain = dense(c, bias=c.flag("mlp_bias", False))
    feed_forwards, _ = _layers(c, plain, _Experts(0, 64, 6, 2, correction=False))
    groups = stack([mixer] * len(feed_forwards), feed_forwards, PRE_NORMS)
    return model(c, groups, family="deepseek_v2", dialect="deepseek")


def read_deepseek_v3(c: Fields) -> ModelSpec:
    """DeepSeek-V3, R1 and models of the same architecture (Kimi K2)."""
    return _sparse(c, "deepseek_v3", latent_attention(c), _Experts(3, 256, 8, 1))


def _sparse(c: Fields, family: str, mixer: LatentAttention, of: _Experts, own_vocab: bool = True) -> ModelSpec:
    feed_forwards, sparse = _layers(c, dense(c), of)
    c.read.add("layer_types")  # every layer is of one kind, whatever word the file has for it
    groups = stack([mixer] * len(feed_forwards), feed_forwards, PRE_NORMS)
    spec = model(c, groups, family=family, dialect="deepseek")
    return with_prediction(c, spec, Layer(mixer, sparse, PRE_NORMS, mixer.hidden), own_vocab=own_vocab)


read_kimi_k2 = read_deepseek_v3


def _renamed(c: Fields) -> None:
    """Files of models with an indexer may say `num_experts`, which then counts."""
    stated = c.raw("num_experts")
    if stated is not None:
        c.values = {**c.values, "n_routed_experts": stated}


def read_deepseek_v32(c: Fields) -> ModelSpec:
    """DeepSeek-V3.2: every layer has an indexer."""
    _renamed(c)
    ranks = msgspec.structs.replace(_DEEPSEEK, index=(64, 128))
    return _sparse(c, "deepseek_v32", latent_attention(c, ranks), _Experts(3, 256, 8, 1))


def read_glm4_moe_lite(c: Fields) -> ModelSpec:
    """GLM-4.7-Flash."""
    ranks = Ranks(768, nope=192, value=256)
    return _sparse(c, "glm4_moe_lite", latent_attention(c, ranks), _Experts(1, 64, 4, 1))


def read_glm_moe_dsa(c: Fields) -> ModelSpec:
    """GLM-5: some layers have an indexer of their own, the others take the tokens that the one before picked."""
    _renamed(c)
    indexing = latent_attention(c, Ranks(2048, nope=192, value=256, index=(32, 128)))
    sharing = msgspec.structs.replace(indexing, index_heads=0, index_dim=0)
    spec = _sparse(c, "glm_moe_dsa", indexing, _Experts(3, 256, 8, 1), own_vocab=False)
    full = indexers(c, spec.layers)
    parts = [layer.feed_forward for layer in spec.each_layer]
    groups = stack([indexing if own else sharing for own in full], parts, PRE_NORMS)
    return msgspec.structs.replace(spec, groups=groups)


def indexers(c: Fields, layers: int) -> list[bool]:
    """Which layers run an indexer of their own (transformers' GlmMoeDsaConfig)."""
    kinds = c.kinds("indexer_types", layers, ("full", "shared"))
    if kinds is None:
        pattern = c.raw("index_topk_pattern")
        if isinstance(pattern, str):
            c.values = {**c.values, "index_topk_pattern": list(pattern)}
        kinds = c.kinds("index_topk_pattern", layers, ("F", "S", "full", "shared"))
    if kinds is not None:
        return [kind in ("full", "F") for kind in kinds]
    every = max(c.maybe_size("index_topk_freq", default=1, least=0) or 1, 1)
    offset = c.size("index_skip_topk_offset", default=2, least=0)
    return [max(i - offset + 1, 0) % every == 0 for i in range(layers)]


def read_minicpm3(c: Fields) -> ModelSpec:
    """MiniCPM 3: latent attention in a dense decoder."""
    layers = c.layers("num_hidden_layers")
    if c.raw("v_head_dim") is None:
        width = c.divide(c.size("hidden_size"), c.size("num_attention_heads"), "hidden_size", "num_attention_heads")
        c.values = {**c.values, "v_head_dim": width}
    c.read |= {"dim_model_base", "scale_depth", "scale_emb"}
    mixer = latent_attention(c, Ranks(768, 256, 64, 32))
    groups = stack([mixer] * layers, [dense(c, bias=c.flag("mlp_bias", False))] * layers, PRE_NORMS)
    return model(c, groups, family="minicpm3", dialect="deepseek", tied=True)
