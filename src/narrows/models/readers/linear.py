"""Decoders with linear attention or short convolutions beside softmax attention: Kimi Linear, MiniMax-01, LFM2."""

from __future__ import annotations

from narrows.models.feedforward import Dense, FeedForward
from narrows.models.fields import Fields
from narrows.models.mixers import KimiDelta, Lightning, Mixer, ShortConvolution
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    attention,
    dense,
    mixture,
    model,
    stack,
    untied,
    which_sparse,
)
from narrows.models.readers.deepseek import Ranks, latent_attention
from narrows.models.spec import ModelSpec, Norms
from narrows.text import BadInput


def read_kimi_linear(c: Fields) -> ModelSpec:
    """Kimi Linear: three layers of delta attention to one of latent attention."""
    layers = c.layers("num_hidden_layers")
    own = c.raw("linear_attn_config")
    sizes = c.nested("linear_attn_config") if isinstance(own, dict) else Fields({})
    kinds = c.kinds("layer_types", layers, (LINEAR, FULL))
    if kinds is None and sizes.has("full_attn_layers"):
        # numbered from 1 in the file
        at = {index - 1 for index in sizes.indices("full_attn_layers")}
        kinds = [FULL if i in at else LINEAR for i in range(layers)]
    if kinds is None:
        kinds = [FULL if i and i % 4 == 0 else LINEAR for i in range(layers)]
    full = latent_attention(c, Ranks(None))
    delta = KimiDelta(
        full.hidden,
        sizes.size("num_heads", default=c.size("linear_num_heads", default=32)),
        sizes.size("head_dim", default=c.size("linear_head_dim", default=128)),
        sizes.size("short_conv_kernel_size", default=c.size("linear_conv_kernel_dim", default=4)),
    )
    mixers: list[Mixer] = [full if kind == FULL else delta for kind in kinds]
    width = c.size("moe_intermediate_size")
    sparse = mixture(
        c,
        full.hidden,
        width,
        number=256,
        top_k=8,
        chosen=("num_experts_per_token", "num_experts_per_tok"),
        shared=width * (c.maybe_size("num_shared_experts", "n_shared_experts", default=1, least=0) or 0),
        correction=True,
    )
    first = c.size("first_k_dense_replace", default=1, least=0)
    plain = dense(c)
    parts: list[FeedForward] = [sparse if one else plain for one in which_sparse(c, layers, first)]
    c.read |= {"num_expert_group", "moe_renormalize", "mla_use_nope", "moe_router_activation_func", "use_grouped_topk"}
    c.read |= {"moe_layer_freq", "num_nextn_predict_layers"}
    c.values = {**c.values, "max_position_embeddings": c.raw("model_max_length", "max_position_embeddings")}
    untied(c)
    return model(c, stack(mixers, parts, PRE_NORMS), family="kimi_linear", dialect="kimi_linear")


def read_minimax(c: Fields) -> ModelSpec:
    """MiniMax-Text-01: lightning attention, softmax attention in some layers; Mixtral's experts."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (LINEAR, FULL)) or [(FULL, LINEAR)[i % 2] for i in range(layers)]
    full = attention(c, kv_heads=8, window=c.maybe_size("sliding_window", default=None))
    lightning = Lightning(full.hidden, full.heads, full.head_dim)
    mixers: list[Mixer] = [full if kind == FULL else lightning for kind in kinds]
    part = mixture(
        c, full.hidden, c.size("intermediate_size"), number=8, top_k=2, names=("num_local_experts", "num_experts")
    )
    c.read |= {name for name in c.values if name.endswith(("_alpha_factor", "_beta_factor"))} | {"block_size"}
    return model(c, stack(mixers, [part] * layers, PRE_NORMS), family="minimax", dialect="minimax")


_CONVOLUTION = "conv"
_LFM2_NORMS = Norms(("operator_norm", "ffn_norm"))


def _lfm2(c: Fields, kinds: list[str]) -> list[Mixer]:
    """One mixer per layer; `tie_embedding` is what these files call `tie_word_embeddings`."""
    full = attention(c, kv_heads=8, qk_norm=True)
    convolution = ShortConvolution(full.hidden, c.size("conv_L_cache", default=3), c.flag("conv_bias", False))
    if c.raw("tie_embedding") is not None:
        c.values = {**c.values, "tie_word_embeddings": c.raw("tie_embedding")}
    return [full if kind == FULL else convolution for kind in kinds]


def read_lfm2(c: Fields) -> ModelSpec:
    """LFM2: gated short convolutions, attention in some layers."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (_CONVOLUTION, FULL))
    at = c.indices("full_attn_idxs") if c.raw("full_attn_idxs") is not None else frozenset(range(layers))
    mixers = _lfm2(c, kinds or [FULL if i in at else _CONVOLUTION for i in range(layers)])
    width = c.size("block_ff_dim", "intermediate_size")
    if c.flag("block_auto_adjust_ff_dim", True):
        width = int(2 * width / 3)
        if c.raw("block_ffn_dim_multiplier", default=1.0) is not None:
            width = int(c.factor("block_ffn_dim_multiplier", 1.0) * width)
        if width < 1:
            # transformers would build a feed-forward part of no width
            raise BadInput(
                "config field '{field}' is too small; take the config.json of the original model",
                field=c.path + "intermediate_size",
            )
        multiple = c.size("block_multiple_of", default=256)
        width = -(-width // multiple) * multiple
    c.read |= {"block_multiple_of", "block_ffn_dim_multiplier", "num_heads"}
    c.read |= {name for name in c.values if name.startswith(("block_", "conv_", "use_pos"))}
    part = Dense(mixers[0].hidden, width)
    return model(c, stack(mixers, [part] * layers, _LFM2_NORMS), family="lfm2", dialect="lfm2", tied=True)


def read_lfm2_moe(c: Fields) -> ModelSpec:
    """LFM2 with experts: some dense layers first."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (_CONVOLUTION, FULL)) or [FULL] * layers
    mixers = _lfm2(c, kinds)
    hidden = mixers[0].hidden
    sparse = mixture(
        c,
        hidden,
        c.size("moe_intermediate_size", default=1792),
        number=32,
        top_k=4,
        names=("num_experts",),
        correction=c.flag("use_expert_bias", True),
    )
    plain, first = Dense(hidden, c.size("intermediate_size")), c.size("num_dense_layers", default=2, least=0)
    parts: list[FeedForward] = [plain if i < first else sparse for i in range(layers)]
    return model(c, stack(mixers, parts, _LFM2_NORMS), family="lfm2_moe", dialect="lfm2", tied=True)
