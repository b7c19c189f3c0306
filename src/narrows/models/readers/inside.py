"""Decoders that stand in multimodal models only: switches and defaults as data, and what a few have of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import LatentAttention, Mixer
from narrows.models.readers.build import (
    FULL,
    PRE_NORMS,
    SANDWICH_NORMS,
    SLIDING,
    attention,
    dense,
    grouped,
    mixture,
    model,
    outside,
    stack,
    which_sparse,
    windowed,
)
from narrows.models.readers.deepseek import Ranks, latent_attention
from narrows.models.readers.like_llama import build
from narrows.models.readers.towers.parts import whole_numbers
from narrows.models.readers.traits import Experts, Traits, attention_of, dense_of, experts_of
from narrows.models.readers.traits_table import TRAITS as ALONE
from narrows.models.spec import Layer, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_BIAS = ("attention_bias", False)
_MLP_BIAS = ("mlp_bias", False)

_ERNIE = msgspec.structs.replace(ALONE["ernie4_5_moe"], head_bias=False)
_UNLIMITED_OCR = Traits(
    dialect="deepseek",
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    mlp_bias=_MLP_BIAS,
    experts=Experts(
        number=("n_routed_experts", "num_experts"),
        number_default=64,
        top_k_default=6,
        width="moe_intermediate_size",
        shared="n_shared_experts",
        shared_default=2,
        shared_bias=_MLP_BIAS,
    ),
)

TRAITS: dict[str, Traits] = {
    "cosmos3_edge_text": Traits(
        dialect="phi", kv_heads=8, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP_BIAS, gated=False
    ),
    "qwen3_vl_text": Traits(kv_heads=32, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, qk_norm=True),
}


def read_molmo2_text(c: Fields) -> ModelSpec:
    """Molmo 2: norms on queries and keys, of one head or of all; rows for its own tokens."""
    kind = c.choice("qk_norm_type", ("qwen3", "olmo"), "qwen3")
    traits = Traits(kv_heads=8, head_dim=128, qkv_bias=_BIAS, qk_norm=True, qk_norm_heads=kind == "olmo")
    c.read |= {"norm_after", "rope_scaling_layers"}
    spec = build(c, "molmo2", traits)
    rows = c.size("additional_vocab_size", default=128, least=0)
    return msgspec.structs.replace(spec, embedding_rows=spec.vocab + rows)


def read_ernie4_5_vl_moe_text(c: Fields) -> ModelSpec:
    """ERNIE 4.5 VL: experts for text, and narrower ones for pictures, which stand beside the decoder here."""
    widths = whole_numbers(c, "moe_intermediate_size", default=[1536, 512], count=2)
    c.values = {**c.values, "moe_intermediate_size": widths[0]}
    layers, traits = c.layers("num_hidden_layers"), _ERNIE
    assert traits.experts is not None
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    mixer = attention_of(c, traits)
    kinds = which_sparse(c, layers, 1)
    groups = stack([mixer] * layers, [sparse if one else plain for one in kinds], PRE_NORMS)
    spec = model(c, groups, family="ernie4_5_vl_moe", dialect=traits.dialect, tied=True)
    seeing = msgspec.structs.replace(sparse, intermediate=widths[1], shared=0)
    stem = "model.layers.{}.mlp.vision_moe."
    tensors = tuple((f"{stem}{t.role}.weight", sum(kinds), _plain(t)) for t in seeing.tensors() if any(kinds))
    # a token of text is not sent there; all of them count as active, as vision towers do
    towers = (Tower("vision experts", tensors),) if tensors else ()
    return msgspec.structs.replace(spec, towers=towers)


def _plain(tensor: Tensor) -> Tensor:
    use = "plain" if tensor.use == "linear" else tensor.use
    return msgspec.structs.replace(tensor, use=use, active=None)


def read_unlimited_ocr_text(c: Fields) -> ModelSpec:
    """Unlimited OCR: some dense layers first. What it writes slides over a window, but it keeps the whole prompt."""
    layers, traits = c.layers("num_hidden_layers"), _UNLIMITED_OCR
    assert traits.experts is not None
    c.values = {name: value for name, value in c.values.items() if name != "head_dim"}
    c.read |= {"sliding_window", "layer_types"}
    kinds = which_sparse(c, layers, c.size("first_k_dense_replace", default=1, least=0))
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    groups = stack([attention_of(c, traits)] * layers, [sparse if one else plain for one in kinds], PRE_NORMS)
    return model(c, groups, family="unlimited_ocr", dialect=traits.dialect)


def read_mistral4(c: Fields) -> ModelSpec:
    """Mistral Small 4: latent attention, every layer a mixture of experts unless the file says otherwise."""
    return _latent(c, "mistral4", Ranks(1024, 256, 64, 64, 128), (128, 4), 0)


def _latent(c: Fields, family: str, ranks: Ranks, experts: tuple[int, int], first: int) -> ModelSpec:
    layers = c.layers("num_hidden_layers")
    stated = c.raw("num_experts")
    if stated is not None:
        c.values = {**c.values, "n_routed_experts": stated}
    width = c.size("moe_intermediate_size", default=2048)
    number = c.size("n_routed_experts", "num_local_experts", default=experts[0])
    shared = c.maybe_size("n_shared_experts", default=1, least=0) or 0
    hidden = c.size("hidden_size")
    sparse = MixtureOfExperts(
        hidden,
        number,
        c.maybe_size("num_experts_per_tok", default=min(experts[1], number), most=number) or number,
        width,
        shared=shared * width,
    )
    first = c.maybe_size("first_k_dense_replace", default=first, least=0) or 0
    kinds, plain = which_sparse(c, layers, first), dense(c)
    mixer = latent_attention(c, ranks)
    groups = stack([mixer] * layers, [sparse if one else plain for one in kinds], PRE_NORMS)
    return model(c, groups, family=family, dialect="deepseek")


def read_mistral_large4_text(c: Fields) -> ModelSpec:
    """Mistral Large 4: latent attention with an indexer; layers without rotary positions have no rotary part."""
    c.values = {**c.values, "q_lora_rank": None}
    spec = _latent(c, "mistral_large4", Ranks(None, 512, 64, 64, 128, index=(32, 128)), (128, 4), 1)
    layers = spec.layers
    rotary = _rotary(c, layers)
    _own_keys(c, layers)
    full = spec.groups[0].layer.mixer
    assert isinstance(full, LatentAttention)
    scales = ((role, heads) for role, heads in (("scale", full.heads), ("index_scale", full.index_heads)))
    beside = (
        *(Tensor(f"mla.{role}{bias}", (heads,), "vector") for role, heads in scales for bias in ("", ".bias")),
        *(Tensor(f"mla.index_q_norm{bias}", (full.hidden,), "vector") for bias in ("", ".bias")),
    )
    full = msgspec.structs.replace(full, beside=beside)
    straight = msgspec.structs.replace(full, nope=full.nope + full.rope, rope=0)
    c.read.add("layer_types")
    parts = [layer.feed_forward for layer in spec.each_layer]
    mixers: list[Mixer] = [full if one else straight for one in rotary]
    alpha = Tensor("before.alpha", (full.rope // 2,), "vector", format="float32")
    return msgspec.structs.replace(
        spec, groups=stack(mixers, parts, PRE_NORMS), dialect="mistral_large4", extra=outside(before=[alpha])
    )


def _rotary(c: Fields, layers: int) -> list[bool]:
    """Which layers have rotary positions; every fourth has none."""
    every = c.size("no_rope_layer_interval", default=4)
    stated = c.raw("no_rope_layers")
    if stated is None:
        return [(i + 1) % every != 0 for i in range(layers)]
    if not isinstance(stated, list) or len(stated) != layers:
        raise BadInput("config field '{field}' must be a list of layer numbers", field=c.path + "no_rope_layers")
    return [bool(one) for one in stated]


def _own_keys(c: Fields, layers: int) -> None:
    """Refuses layers that take the keys or the picks of another one."""
    sources, indexers = c.raw("kv_source_layers"), c.raw("indexer_types")
    c.read |= {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"}
    freq = c.maybe_size("index_topk_freq", default=1, least=0) or 1
    own = (sources is None or sources == list(range(layers))) and (
        indexers == ["full"] * layers if indexers is not None else freq == 1 and c.raw("index_topk_pattern") is None
    )
    if not own:
        raise BadInput(
            "this mistral_large4 config has layers that share keys or indexers with others, which narrows does not "
            "read yet"
        )


def _last_full(c: Fields, layers: int) -> list[str]:
    """Every fourth layer is full, counted from the last."""
    usual = [SLIDING if (layers - 1 - i) % 4 else FULL for i in range(layers)]
    return c.kinds("layer_types", layers, (SLIDING, FULL)) or usual


def read_muse_glimmer_text(c: Fields) -> ModelSpec:
    """Muse Glimmer: gated attention, windows in three of four layers."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=2, head_dim=128, qkv_bias=bias, out_bias=bias, gate="channel")
    mixers = windowed(full, c.maybe_size("sliding_window", default=2048), _last_full(c, layers))
    c.read |= _MUSE
    groups = stack(mixers, [dense(c)] * layers, SANDWICH_NORMS)
    return model(c, groups, family="muse_glimmer", dialect="muse_glimmer")


_MUSE = {"qk_scale_factor", "output_multiplier", "post_norm_eps", "layer_rope_theta", "residual_gate_temperature"}


def read_muse_spark_text(c: Fields) -> ModelSpec:
    """Muse Spark: Glimmer's attention, experts between projections to a narrower width, gated residuals."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=16, head_dim=64, qkv_bias=bias, out_bias=bias, gate="channel")
    mixers = windowed(full, c.maybe_size("sliding_window", default=2048), _last_full(c, layers))
    narrow = c.size("moe_hidden_size", default=4096)
    sparse = mixture(
        c,
        full.hidden,
        c.size("moe_intermediate_size", default=4096),
        number=256,
        top_k=8,
        names=("num_local_experts", "num_experts"),
        correction=True,
        latent=narrow,
    )
    at = which_sparse(c, layers, 0)
    c.read |= _MUSE
    plain = dense(c)
    norms = Norms(("input_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"))
    residuals = tuple(Tensor(f"residual.{part}", (full.hidden,), "vector") for part in ("attention", "mlp"))
    around = tuple(Tensor(f"latent.{side}_norm", (narrow,), "vector") for side in ("in", "out"))
    layer = {
        (mixer, one): Layer(mixer, sparse if one else plain, norms, full.hidden, beside=residuals + around * one)
        for mixer in set(mixers)
        for one in (False, True)
    }
    groups = grouped(layer[mixer, one] for mixer, one in zip(mixers, at, strict=True))
    return model(c, groups, family="muse_spark", dialect="muse_spark")


def read_step3p5(c: Fields) -> ModelSpec:
    """Step 3.5: a gate for every head, sliding layers with a number of heads of their own, experts from layer 3 on."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    c.values = {**c.values, **_step_names(c, layers)}
    full = attention(c, kv_heads=8, head_dim=128, qkv_bias=bias, out_bias=bias, qk_norm=True, gate="head")
    heads = c.maybe_size("num_sliding_attention_heads", default=None) or full.heads
    c.divide(heads, full.kv_heads, "num_sliding_attention_heads", "num_key_value_heads")
    window = c.maybe_size("sliding_window", default=None)
    sliding = msgspec.structs.replace(full, heads=heads, window=window)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [FULL] * layers
    mlp_bias = c.flag("mlp_bias", False)
    sparse = mixture(
        c,
        full.hidden,
        c.size("moe_intermediate_size", default=1280),
        number=288,
        top_k=8,
        names=("n_routed_experts", "moe_num_experts", "num_local_experts"),
        chosen=("num_experts_per_tok", "moe_top_k"),
        shared=c.size("share_expert_dim", "share_expert_dims", default=1280),
        shared_bias=mlp_bias,
        correction=True,
    )
    plain = dense(c, bias=mlp_bias)
    wide = _step_sparse(c, layers)
    mixers = [sliding if kind == SLIDING else full for kind in kinds]
    groups = stack(mixers, [sparse if one else plain for one in wide], PRE_NORMS)
    return model(c, groups, family="step3p5", dialect="laguna")


def _step_names(c: Fields, layers: int) -> dict[str, object]:
    """Older names of its fields; lists that go on for prediction layers are cut."""
    found: dict[str, object] = {}
    groups = c.raw("num_attention_groups")
    if groups is not None and not c.has("num_key_value_heads"):
        found["num_key_value_heads"] = groups
    other = c.raw("attention_other_setting")
    if isinstance(other, dict) and c.raw("num_sliding_attention_heads") is None:
        found["num_sliding_attention_heads"] = other.get("num_attention_heads")
    more = c.maybe_size("num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=64) or 0
    for name in ("layer_types", "mlp_layer_types"):
        value = c.raw(name)
        if more and isinstance(value, list) and len(value) == layers + more:
            found[name] = value[:layers]
    c.read |= {"swiglu_limits", "swiglu_limits_shared", "mtp_layer_types", "mtp_mlp_layer_types", "per_layer_config"}
    c.read |= {"moe_router_scaling_factor"}
    return found


def _step_sparse(c: Fields, layers: int) -> list[bool]:
    """Which layers are sparse: listed as kinds, or as numbers in a string; else all from the fourth on."""
    stated = c.raw("moe_layers_enum")
    if isinstance(stated, str):
        numbers = [one.strip() for one in stated[:100_000].split(",") if one.strip()]
        if not all(one.isdecimal() and len(one) < 7 for one in numbers):
            raise BadInput("config field '{field}' must be a list of layer numbers", field=c.path + "moe_layers_enum")
        c.values = {**c.values, "moe_layers_enum": [int(one) for one in numbers]}
    chosen = c.indices("moe_layers_enum") if stated is not None else frozenset(range(3, layers))
    kinds = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    return [i in chosen for i in range(layers)] if kinds is None else [kind == "sparse" for kind in kinds]


READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    **{kind: partial(build, model_type=kind, traits=traits) for kind, traits in TRAITS.items()},
    "molmo2_text": read_molmo2_text,
    "ernie4_5_vl_moe_text": read_ernie4_5_vl_moe_text,
    "unlimited_ocr_text": read_unlimited_ocr_text,
    "mistral_large4_text": read_mistral_large4_text,
    "muse_glimmer_text": read_muse_glimmer_text,
    "muse_spark_text": read_muse_spark_text,
    "step3p5": read_step3p5,
}
"""Readers of the decoders that no config has on its own."""
