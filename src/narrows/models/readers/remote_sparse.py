"""Mixtures of experts whose classes stand beside their files, or whose files spell everything in their own way."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Beside, Dense, FeedForward
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import PRE_NORMS, attention, dense, mixture, model, stack
from narrows.models.readers.like_llama import read_hunyuan_v1_moe
from narrows.models.readers.mtp import with_prediction
from narrows.models.readers.spelling import respell
from narrows.models.spec import ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_dbrx(c: Fields) -> ModelSpec:
    """DBRX: q, k and v fused, LayerNorms without biases, experts in every layer; sizes in objects of their own."""
    respell(c, {"max_position_embeddings": ("max_seq_len",)})
    hidden, heads, layers = c.size("d_model"), c.size("n_heads"), c.layers("n_layers")
    own, experts = (c.nested(name) if c.raw(name) else Fields({}, f"{name}.") for name in ("attn_config", "ffn_config"))
    kv = own.size("kv_n_heads", default=1, most=heads)
    c.divide(heads, kv, "n_heads", "attn_config.kv_n_heads")
    mixer = Attention(hidden, heads, kv, c.divide(hidden, heads, "d_model", "n_heads"))
    width = experts.size("ffn_hidden_size", default=3584)
    part = mixture(experts, hidden, width, number=4, top_k=1, names=("moe_num_experts",), chosen=("moe_top_k",))
    c.read |= {"emb_pdrop", "num_key_value_heads"}
    return model(
        c, stack([mixer] * layers, [part] * layers, Norms(("norm_1", "norm_2"))), family="dbrx", dialect="dbrx"
    )


def read_arctic(c: Fields) -> ModelSpec:
    """Snowflake Arctic: beside the experts of a layer, a dense part as wide as the model."""
    layers = c.layers("num_hidden_layers")
    mixer = attention(c, window=c.maybe_size("sliding_window", default=None))
    sparse = mixture(c, mixer.hidden, c.size("intermediate_size"), number=8, top_k=2, names=("num_local_experts",))
    if c.size("moe_layer_frequency", default=2) != 1 or not c.flag("parallel_attn_mlp_res", False):
        raise BadInput(
            "this arctic config does not have experts beside a dense part in every layer, as the published models do; "
            "narrows reads only those"
        )
    c.read |= {name for name in c.values if name.startswith("moe_")} | {"use_residual", "quantization"}
    c.read |= {"enable_expert_tensor_parallelism", "enc_index"}
    part = Beside((Dense(mixer.hidden, mixer.hidden),), sparse)
    groups = stack([mixer] * layers, [part] * layers, Norms((*PRE_NORMS.names, "residual_layernorm")))
    return model(c, groups, family="arctic", dialect="arctic")


def read_bailing_moe(c: Fields) -> ModelSpec:
    """Ling and Ring up to 2.0: q, k and v fused, leading dense layers; 2.0 has norms on queries and keys."""
    layers = c.layers("num_hidden_layers")
    mixer = attention(
        c,
        qkv_bias=c.flag("use_qkv_bias", False),
        out_bias=c.flag("use_bias", False),
        qk_norm=c.flag("use_qk_norm", False),
    )
    width = c.size("moe_intermediate_size")
    count = c.maybe_size("num_shared_experts", default=0, least=0) or 0
    wide = c.maybe_size("moe_shared_expert_intermediate_size", default=None)
    sparse = mixture(
        c,
        mixer.hidden,
        width,
        number=16,
        top_k=2,
        names=("num_experts",),
        shared=count * (wide or width),
        correction=c.flag("moe_router_enable_expert_bias", False),
    )
    first = c.size("first_k_dense_replace", default=0, least=0)
    plain = dense(c) if first else None
    if plain is None:
        c.read.add("intermediate_size")
    parts: list[FeedForward] = [plain if plain is not None and i < first else sparse for i in range(layers)]
    c.read |= {
        "multi_gate",
        "norm_head",
        "norm_softmax",
        "use_rmsnorm",
        "score_function",
        "rotary_type",
        "using_split_qkv",
    }
    c.read |= {
        "moe_router_enable_shared_expert",
        "moe_router_topk_scaling_factor",
        "use_sliding_window",
        "sliding_window",
    }
    if c.flag("use_sliding_window", False):
        raise BadInput("this bailing_moe config slides over a window, which narrows does not read yet")
    spec = model(c, stack([mixer] * layers, parts, PRE_NORMS), family="bailing_moe", dialect="bailing_moe")
    return with_prediction(c, spec, spec.groups[-1].layer, own_vocab=False)


read_bailing_moe_v2 = read_bailing_moe


def read_hunyuan(c: Fields) -> ModelSpec:
    """Hunyuan Large and A13B: with cross-layer attention, only every `cla_share_factor`-th layer makes keys and values.

    The others attend to those of the layer before (Brandon et al. 2024), of which engines keep a copy for each of them
    (SGLang's class says so, and that vLLM's does), under a norm of their own.
    """
    respell(c, {"head_dim": ("attention_head_dim",)})
    norm = c.flag("use_qk_norm", False)
    c.read |= {"use_mixed_mlp_moe", "num_shared_expert", "mlp_bias", "enable_lm_head_fp32", "im_start_id", "pad_id"}
    c.read |= {"moe_layer_num_skipped", "moe_drop_tokens", "moe_random_routing_dropped_token", "group_limited_greedy"}
    if not c.raw("use_mixed_mlp_moe") and (c.raw("num_shared_expert") or 0) != 1:
        raise BadInput("this hunyuan config has no shared expert, which narrows does not read yet")
    spec = read_hunyuan_v1_moe(c)
    c.read.add("cla_share_factor")
    shares = c.size("cla_share_factor", default=1) if c.flag("use_cla", False) else 1
    layer = spec.groups[0].layer
    assert isinstance(layer.mixer, Attention) and layer.feed_forward is not None
    own = msgspec.structs.replace(layer.mixer, qk_norm=norm)
    key_norm = (Tensor("attention.k_norm", (own.head_dim,), "vector"),) if norm else ()
    sharing = msgspec.structs.replace(own, borrowed=True, kept=True, beside=key_norm)
    mixers = [own if i % shares == 0 else sharing for i in range(spec.layers)]
    groups = stack(mixers, [layer.feed_forward] * spec.layers, PRE_NORMS)
    return msgspec.structs.replace(spec, family="hunyuan", groups=groups)
