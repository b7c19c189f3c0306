"""Decoders that stand in multimodal models only: switches and defaults as data, and what a few have of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import LatentAttention, Mixer
from narrows.models.readers.build import PRE_NORMS, dense, model, stack
from narrows.models.readers.deepseek import Ranks, latent_attention
from narrows.models.readers.like_llama import build
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.readers.traits import Experts, Traits, attention_of, dense_of, experts_of
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_BIAS = ("attention_bias", False)
_MLP_BIAS = ("mlp_bias", False)
_USE_BIAS = ("use_bias", False)

_ERNIE = Traits(
    dialect="ernie4_5_moe",
    kv_heads=4,
    qkv_bias=_USE_BIAS,
    out_bias=_USE_BIAS,
    mlp_bias=_USE_BIAS,
    tied=True,
    experts=Experts(
        number=("moe_num_experts", "num_experts"),
        number_default=64,
        top_k=("moe_k", "num_experts_per_tok"),
        top_k_default=6,
        width="moe_intermediate_size",
        shared="moe_num_shared_experts",
        shared_default=2,
        shared_bias=_USE_BIAS,
        correction=True,
        correction_learned=True,
    ),
)
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
    "aria_text": Traits(
        dialect="deepseek",
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        experts=Experts(
            number=("moe_num_experts",),
            top_k=("moe_topk",),
            shared="moe_num_shared_experts",
            shared_default=2,
            shared_bias=_MLP_BIAS,
        ),
    ),
    "cosmos3_edge_text": Traits(
        dialect="phi", kv_heads=8, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP_BIAS, gated=False
    ),
    "qwen3_vl_text": Traits(kv_heads=32, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, qk_norm=True),
}


def more_rows(rows: int, hidden: int) -> tuple[Tower, ...]:
    """Rows of the embedding that the head does not have."""
    if not rows:
        return ()
    return (
        Tower(
            "additional embeddings",
            (("model.embed_tokens.additional", 1, Tensor("embedding", (rows, hidden), "table", rows)),),
        ),
    )


def read_molmo2_text(c: Fields) -> ModelSpec:
    """Molmo 2: norms on queries and keys, of one head or of all; rows for its own tokens."""
    kind = c.raw("qk_norm_type", default="qwen3")
    if kind not in ("qwen3", "olmo"):
        raise BadInput(
            "config field '{field}' is '{value}'; narrows reads {known} there",
            field=c.path + "qk_norm_type",
            value=str(kind)[:40],
            known="qwen3, olmo",
        )
    traits = Traits(kv_heads=8, head_dim=128, qkv_bias=_BIAS, qk_norm=True, qk_norm_heads=kind == "olmo")
    c.read |= {"norm_after", "rope_scaling_layers"}
    spec = build(c, "molmo2", traits)
    rows = c.size("additional_vocab_size", default=128, least=0)
    return msgspec.structs.replace(spec, towers=more_rows(rows, spec.hidden))


def _kinds(c: Fields, layers: int, first: int) -> list[bool]:
    """Which layers are sparse: by `mlp_layer_types`, else all from `first` on."""
    kinds = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    return [i >= first for i in range(layers)] if kinds is None else [kind == "sparse" for kind in kinds]


def read_ernie4_5_vl_moe_text(c: Fields) -> ModelSpec:
    """ERNIE 4.5 VL: experts for text, and narrower ones for pictures, which stand beside the decoder here."""
    widths = whole_numbers(c, "moe_intermediate_size", default=[1536, 512], count=2)
    c.values = {**c.values, "moe_intermediate_size": widths[0]}
    layers, traits = c.layers("num_hidden_layers"), _ERNIE
    assert traits.experts is not None
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    mixer = attention_of(c, traits)
    kinds = _kinds(c, layers, 1)
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
    kinds = _kinds(c, layers, c.size("first_k_dense_replace", default=1, least=0))
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
    kinds, plain = _kinds(c, layers, first), dense(c)
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
    straight = msgspec.structs.replace(full, nope=full.nope + full.rope, rope=0)
    c.read.add("layer_types")
    parts = [group.layer.feed_forward for group in spec.groups for _ in range(group.repeat)]
    mixers: list[Mixer] = [full if one else straight for one in rotary]
    beside = Parts("model.layers.{}.self_attn.")
    for stem, heads in (("softmax_scaling.", full.heads), ("indexer.softmax_scaling.", full.index_heads)):
        for name in ("scale", "bias"):
            beside.parameter(stem + name, heads, repeats=layers)
    beside.add("indexer.q_input_norm", full.hidden, repeats=layers, bias=True)
    alpha = ("lerope.alpha", 1, Tensor("rotary.alpha", (full.rope // 2,), "vector", format="float32"))
    tower = Tower("scales of attention", (*beside.found, alpha))
    return msgspec.structs.replace(spec, groups=stack(mixers, parts, PRE_NORMS), towers=(tower,))


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


READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    **{kind: partial(build, model_type=kind, traits=traits) for kind, traits in TRAITS.items()},
    "molmo2_text": read_molmo2_text,
    "ernie4_5_vl_moe_text": read_ernie4_5_vl_moe_text,
    "unlimited_ocr_text": read_unlimited_ocr_text,
    "mistral_large4_text": read_mistral_large4_text,
}
"""Readers of the decoders that no config has on its own."""
