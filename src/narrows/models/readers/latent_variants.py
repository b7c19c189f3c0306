"""Decoders with a latent, indexed, routed or uneven attention: Youtu, Sarvam 105B, LongCat-Flash, MiniMax M3, MiMo V2,
JetMoE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from narrows.models.feedforward import Beside, Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Chain, IndexedAttention, Mixer, MixtureOfAttention
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, attention, dense, grouped, mixture, model, stack
from narrows.models.readers.deepseek import latent_attention, read_deepseek_v3
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text


def read_youtu(c: Fields) -> ModelSpec:
    """Youtu-LLM: latent attention, dense."""
    layers, mixer = c.layers("num_hidden_layers"), latent_attention(c)
    c.read |= {"embedding_initializer_range"}
    groups = stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS)
    return model(c, groups, family="youtu", dialect="deepseek", tied=True)


def read_sarvam_mla(c: Fields) -> ModelSpec:
    """Sarvam 105B: DeepSeek-V3's class with other defaults; older files say `num_experts`, `num_shared_experts`."""
    for old, new in (("num_experts", "n_routed_experts"), ("num_shared_experts", "n_shared_experts")):
        value = c.raw(old)
        if c.has(old) and not c.has(new):
            c.values = {**c.values, new: value}
    number = c.size("n_routed_experts", "num_local_experts", default=128)
    usual = {"q_lora_rank": None, "n_routed_experts": number, "num_experts_per_tok": min(8, number)}
    usual |= {"first_k_dense_replace": 1, "n_shared_experts": 1}
    c.values = {**{name: value for name, value in usual.items() if not c.has(name)}, **c.values}
    c.read |= {"q_head_dim"}
    return msgspec.structs.replace(read_deepseek_v3(c), family="sarvam_mla")


def read_longcat_flash(c: Fields) -> ModelSpec:
    """LongCat-Flash: two latent attentions and two dense parts per layer, experts beside them, some of which do
    nothing."""
    halves = c.maybe_size("num_hidden_layers", default=None)
    layers = c.layers("num_layers") if c.has("num_layers") else (halves or 0) // 2
    if halves is not None and halves not in (layers, 2 * layers):
        raise BadInput(
            "config field '{field}' is {given}, and 'num_layers' is {layers}, of which each counts once or twice; the "
            "file contradicts itself",
            field=c.path + "num_hidden_layers",
            given=halves,
            layers=layers,
        )
    layers = Fields({"num_layers": layers}, c.path).layers("num_layers")
    c.read |= {"num_hidden_layers", "num_layers", "mla_scale_q_lora", "mla_scale_kv_lora", "attention_method"}
    c.read |= {"zero_expert_type"}
    latent = latent_attention(c)
    hidden, number = latent.hidden, c.size("n_routed_experts", "num_local_experts", default=512)
    idle = c.maybe_size("zero_expert_num", default=256, least=0) or 0
    every, bias = number + idle, c.flag("router_bias", False)
    router = [Tensor("router", (every, hidden), "plain")]
    if bias:
        router.append(Tensor("router.bias", (every,), "vector"))
    router.append(Tensor("router.correction", (every,), "buffer", format="float32"))
    experts = MixtureOfExperts(
        hidden,
        number,
        c.size("moe_topk", "num_experts_per_tok", default=min(12, every), most=every),
        c.size("expert_ffn_hidden_size", "moe_intermediate_size", default=2048),
        router=tuple(router),
        idle=idle,
    )
    # a token may be sent to experts that do nothing: at most as many as there are do something
    experts = msgspec.structs.replace(experts, top_k=min(experts.top_k, number))
    part = Dense(hidden, c.size("ffn_hidden_size", "intermediate_size"))
    norms = Norms(tuple(f"{name}.{i}" for name in PRE_NORMS.names for i in (0, 1)))
    layer = Layer(Chain(hidden, (latent, latent)), Beside((part, part), experts), norms, hidden)
    note = Text(
        "unique parameters are those that transformers builds: {idle} experts per layer that do nothing have weights "
        "there, and none in the published file",
        idle=idle,
    )
    return model(
        c,
        grouped([layer] * layers),
        family="longcat_flash",
        dialect="longcat_flash",
        assumptions=(note,) if idle else (),
    )


_SPARSE = "minimax_m3_sparse"


def _switches(value: Any, field: str, layers: int) -> list[bool]:
    """A list of zeros and ones, one per layer."""
    if not isinstance(value, list) or any(one not in (0, 1) for one in value) or len(value) != layers:
        raise BadInput("config field '{field}' must be a list of {count} zeros and ones", field=field, count=layers)
    return [bool(one) for one in value]


def read_minimax_m3_vl_text(c: Fields) -> ModelSpec:
    """MiniMax M3's decoder: attention to picked blocks in the layers that the file lists; experts with a shared one."""
    layers = c.layers("num_hidden_layers")
    full = attention(c, kv_heads=4, head_dim=128, qk_norm=True)
    older = c.raw("sparse_attention_config")
    sparse = c.nested("sparse_attention_config") if older else Fields({})
    index = IndexedAttention(
        full,
        sparse.size("sparse_num_index_heads", default=c.size("index_n_heads", default=4)),
        sparse.size("sparse_index_dim", default=c.size("index_head_dim", default=128)),
        sparse.size("sparse_topk_blocks", default=c.size("index_topk_blocks", default=16))
        * sparse.size("sparse_block_size", default=c.size("index_block_size", default=128)),
    )
    kinds = c.kinds("layer_types", layers, (_SPARSE, FULL))
    if kinds is None and sparse.has("sparse_attention_freq"):
        on = _switches(sparse.raw("sparse_attention_freq"), "sparse_attention_config.sparse_attention_freq", layers)
        kinds = [_SPARSE if one else FULL for one in on]
    mixers: list[Mixer] = [index if kind == _SPARSE else full for kind in kinds or [FULL] * layers]
    experts = mixture(
        c,
        full.hidden,
        c.size("intermediate_size", default=3072),
        number=128,
        top_k=4,
        names=("num_local_experts", "num_experts"),
        shared=c.size("shared_intermediate_size", default=3072),
        correction=True,
    )
    sorts = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    if sorts is None and c.raw("moe_layer_freq") is not None:
        sorts = ["sparse" if one else "dense" for one in _switches(c.raw("moe_layer_freq"), "moe_layer_freq", layers)]
    plain = Dense(full.hidden, c.size("dense_intermediate_size", default=12288))
    parts: list[FeedForward] = [plain if sort == "dense" else experts for sort in sorts or ["sparse"] * layers]
    for name, built in (("n_shared_experts", 1), ("attention_output_gate", False), ("use_qk_norm", True)):
        stated = c.raw(name)
        _as_built(c.path + name, built if stated is None else stated, built)
    c.read |= {name for name in c.values if name.startswith("index_")}
    c.read |= {"use_gemma_norm", "num_mtp_modules", "qk_norm_type", "first_k_dense_replace", "moe_intermediate_size"}
    groups = stack(mixers, parts, PRE_NORMS)
    return model(c, groups, family="minimax_m3_vl_text", dialect="minimax_m3")


def read_mimo_v2_flash(c: Fields) -> ModelSpec:
    """MiMo V2 Flash: values narrower than keys; windows with sinks and twice the KV heads in five layers of six."""
    return mimo_v2(c, "mimo_v2_flash", _mimo_windows)


def mimo_v2(c: Fields, family: str, windows: Callable[[Fields, Attention], Attention]) -> ModelSpec:
    """MiMo V2 with what `windows` makes of its full attention where it slides."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL))
    if kinds is None and c.raw("hybrid_layer_pattern") is not None:
        on = _switches(c.raw("hybrid_layer_pattern"), "hybrid_layer_pattern", layers)
        kinds = [SLIDING if one else FULL for one in on]
    kinds = kinds or [FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING for i in range(layers)]
    full = attention(c, kv_heads=4, head_dim=192, qkv_bias=bias, value_dim=c.size("v_head_dim", default=128))
    window = c.size("sliding_window", default=129)
    # the hub's files count the tokens before the current one; transformers reads them so
    before = c.maybe_size("sliding_window_size", default=None)
    heads = windows(c, full)
    sliding = msgspec.structs.replace(heads, window=window if before is None else before + 1, sinks=True)
    experts = mixture(
        c,
        full.hidden,
        c.size("moe_intermediate_size", default=2048),
        number=256,
        top_k=8,
        names=("n_routed_experts", "num_local_experts"),
        correction=True,
    )
    sorts = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    if sorts is None and isinstance(c.raw("moe_layer_freq"), list):
        sorts = ["sparse" if one else "dense" for one in _switches(c.raw("moe_layer_freq"), "moe_layer_freq", layers)]
    sorts = sorts or ["dense"] + ["sparse"] * (layers - 1)
    c.read |= {
        "moe_layer_freq",
        "intermediate_size",
        "attention_value_scale",
        "attention_chunk_size",
        "hybrid_block_size",
    }
    c.read |= {"swa_rope_theta", "n_shared_experts"}
    plain = dense(c) if "dense" in sorts else None
    parts: list[FeedForward] = [plain if plain is not None and sort == "dense" else experts for sort in sorts]
    groups = stack([sliding if kind == SLIDING else full for kind in kinds], parts, PRE_NORMS)
    return model(c, groups, family=family, dialect="deepseek")


def _as_built(field: str, stated: object, built: object) -> None:
    """Refuse a field that says something else than transformers' class builds."""
    if stated != built:
        raise BadInput(
            "config field '{field}' is {value}, and transformers builds {built} there; narrows does not read such a "
            "model yet",
            field=field,
            value=str(stated),
            built=str(built),
        )


def _mimo_windows(c: Fields, full: Attention) -> Attention:
    """The attention of windowed layers; what files say of it beyond transformers' class must agree with the class."""
    doubled = msgspec.structs.replace(full, kv_heads=2 * full.kv_heads)
    class_says = {
        "swa_num_attention_heads": full.heads,
        "swa_num_key_value_heads": doubled.kv_heads,
        "swa_head_dim": full.head_dim,
        "swa_v_head_dim": full.value_dim,
    }
    for name, value in class_says.items():
        stated = c.maybe_size(name, default=value)
        _as_built(c.path + name, value if stated is None else stated, value)
    for name, usual in (("add_swa_attention_sink_bias", True), ("add_full_attention_sink_bias", False)):
        _as_built(c.path + name, c.flag(name, usual), usual)
    c.divide(doubled.heads, doubled.kv_heads, "num_attention_heads", "swa_num_key_value_heads")
    return doubled


def read_jetmoe(c: Fields) -> ModelSpec:
    """JetMoE: experts for the queries and outputs of attention too, picked like those of the feed-forward."""
    layers, hidden = c.layers("num_hidden_layers", "num_layers"), c.size("hidden_size")
    number = c.size("num_local_experts", "moe_num_experts", default=8)
    top_k = c.size("num_experts_per_tok", "moe_top_k", default=min(2, number), most=number)
    kv, width = c.size("num_key_value_heads", default=16), c.size("kv_channels", "head_dim", default=128)
    c.read |= {"num_attention_heads", "aux_loss_coef"}  # top_k times the KV heads
    mixer = MixtureOfAttention(hidden, number, top_k, kv, width)
    part = MixtureOfExperts(hidden, number, top_k, c.size("intermediate_size", "ffn_hidden_size", default=5632))
    extra = (Tensor("experts.output_bias", (hidden,), "vector"),)
    layer = Layer(mixer, part, PRE_NORMS, hidden, beside=extra)
    return model(c, grouped([layer] * layers), family="jetmoe", dialect="jetmoe", tied=True)
