"""DeepSeek-V4: windows with compressed entries beyond them, hyper-connections, experts in every layer."""

from __future__ import annotations

import msgspec

from narrows.models.dialects import DIALECTS
from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import CompressedAttention
from narrows.models.readers.build import PRE_NORMS, SLIDING, grouped, mixture, model, outside
from narrows.models.readers.latent import hyper_connections, hyper_head
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.precision import UNQUANTIZED, Exclusions
from narrows.precision.floats import Nvfp4
from narrows.precision.selection import overrides
from narrows.text import BadInput

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
_OF_RATIO = {0: SLIDING, 4: SPARSE, 128: HEAVY}
"""What the numbers of `compress_ratios` in DeepSeek's own files stand for."""
_RATES = {SPARSE: 4, HEAVY: 128}
_HASH, _ROUTED = "hash_moe", "moe"
_MOST_RATE = 1 << 20


def _listed(c: Fields, layers: int) -> list[str] | None:
    """Kinds of layers by `compress_ratios`, which may go on with the prediction layers' ratios."""
    ratios = c.raw("compress_ratios")
    if ratios is None:
        return None
    if not isinstance(ratios, list) or any(type(ratio) is not int or ratio not in _OF_RATIO for ratio in ratios):
        raise BadInput(
            "config field '{field}' must be a list of: {known}",
            field=c.path + "compress_ratios",
            known=", ".join(map(str, _OF_RATIO)),
        )
    if len(ratios) < layers:
        c.check_layers("compress_ratios", len(ratios), layers)
    return [_OF_RATIO[ratio] for ratio in ratios[:layers]]


def _kinds(c: Fields, layers: int) -> list[str]:
    """`layer_types`, else `compress_ratios`, else heavily compressed layers in turn with sparse ones from the third."""
    given, by_ratio = c.kinds("layer_types", layers, (SLIDING, SPARSE, HEAVY)), _listed(c, layers)
    return given or by_ratio or [SPARSE if i > 1 and i % 2 else HEAVY for i in range(layers)]


def _rates(c: Fields) -> dict[str, int]:
    """Tokens per entry of both kinds of compression."""
    stated = c.nested("compress_rates") if c.raw("compress_rates") is not None else Fields({}, c.path)
    found = {kind: stated.size(kind, default=rate, most=_MOST_RATE) for kind, rate in _RATES.items()}
    for kind, name in ((SPARSE, "compress_rate_csa"), (HEAVY, "compress_rate_hca")):
        found[kind] = c.maybe_size(name, default=None, most=_MOST_RATE) or found[kind]
    return found


def _rotary(c: Fields, width: int) -> int:
    """The rotary part of a head."""
    stated = c.maybe_size("qk_rope_head_dim", default=None, most=width)
    return stated or max(1, width // 8)


def _attention(c: Fields) -> CompressedAttention:
    """The attention of a layer that keeps the window only."""
    heads, width = c.size("num_attention_heads"), c.size("head_dim", default=512)
    groups = c.size("o_groups", default=8)
    c.divide(heads * width, groups, "num_attention_heads", "o_groups")
    c.read.add("num_key_value_heads")  # always one
    return CompressedAttention(
        c.size("hidden_size"),
        heads,
        width,
        _rotary(c, width),
        c.size("q_lora_rank", default=1024),
        groups,
        c.size("o_lora_rank", default=1024),
        c.size("sliding_window", default=128),
    )


def _mixers(c: Fields, kinds: list[str]) -> list[CompressedAttention]:
    window, rates = _attention(c), _rates(c)
    index_heads, index_dim = c.size("index_n_heads", default=64), c.size("index_head_dim", default=128)
    top_k = c.maybe_size("index_topk", default=512, least=0) or 0
    made = {
        SLIDING: window,
        HEAVY: msgspec.structs.replace(window, rate=rates[HEAVY]),
        SPARSE: msgspec.structs.replace(
            window,
            rate=rates[SPARSE],
            overlap=True,
            index_heads=index_heads,
            index_dim=index_dim,
            index_top_k=top_k,
        ),
    }
    return [made[kind] for kind in kinds]


def _experts(c: Fields, layers: int) -> list[MixtureOfExperts]:
    """The first layers pick experts by a table of tokens, the others by scores. One shared expert in all."""
    width = c.size("moe_intermediate_size", "intermediate_size", default=2048)
    scored = mixture(
        c,
        c.size("hidden_size"),
        width,
        number=256,
        top_k=6,
        names=("n_routed_experts", "num_local_experts"),
        shared=width,
        shared_bias=c.flag("mlp_bias", False),
        correction=True,
    )
    c.read.add("n_shared_experts")  # transformers' class builds one, whatever the file says
    looked_up = msgspec.structs.replace(scored, correction=False, by_token=c.size("vocab_size"))
    first = c.size("num_hash_layers", default=3, least=0)
    kinds = c.kinds("mlp_layer_types", layers, (_HASH, _ROUTED)) or [
        _HASH if i < first else _ROUTED for i in range(layers)
    ]
    return [looked_up if kind == _HASH else scored for kind in kinds]


def read_deepseek_v4(c: Fields) -> ModelSpec:
    """DeepSeek-V4 Flash and Pro."""
    layers = c.layers("num_hidden_layers")
    mixers, parts = _mixers(c, _kinds(c, layers)), _experts(c, layers)
    hidden, streams = mixers[0].hidden, c.size("hc_mult", default=4, most=1024)
    hyper = hyper_connections(hidden, streams, streams * (2 + streams), 3)
    made = [Layer(mixer, part, PRE_NORMS, hidden, beside=hyper) for mixer, part in zip(mixers, parts, strict=True)]
    c.read |= {"hc_sinkhorn_iters", "hc_eps", "compress_rope_theta", "expert_dtype", "attention_bias"}
    spec = model(
        c, grouped(made), family="deepseek_v4", dialect="deepseek_v4", extra=outside(after=hyper_head(hidden, streams))
    )
    spec = _with_modelopt_experts(c, spec)
    plain = Layer(_attention(c), parts[-1], PRE_NORMS, hidden, beside=hyper)
    predicted = c.maybe_size("num_nextn_predict_layers", default=0, least=0, most=16) or 0
    towers = tuple(_prediction(i, plain, streams) for i in range(predicted))
    return msgspec.structs.replace(spec, towers=towers)


def _with_modelopt_experts(c: Fields, spec: ModelSpec) -> ModelSpec:
    """Experts that ModelOpt stored in NVFP4, while the other linear weights stayed in FP8."""
    if spec.precision.scheme is UNQUANTIZED:
        return spec
    q = c.nested("quantization_config")
    algorithm = q.raw("moe_quant_algo")
    if algorithm is None:
        return spec
    if algorithm != "NVFP4":
        raise BadInput(
            "config field '{field}' is {value}; narrows reads {known} there",
            field=q.path + "moe_quant_algo",
            value=str(algorithm)[:40],
            known="NVFP4",
        )
    experts = overrides([("*.experts.*", Nvfp4(q.size("group_size", default=16)))])
    # ModelOpt lists what it left as it was, which is FP8
    precision = msgspec.structs.replace(spec.precision, overrides=experts, exclusions=Exclusions())
    return msgspec.structs.replace(spec, precision=precision)


def _prediction(index: int, layer: Layer, streams: int) -> Tower:
    """A stored prediction layer: a layer with the window only, two projections, norms and a merge of its own.

    It shares embedding and head. Source: vLLM's deepseek_v4 (Apache-2.0), whose loader names these tensors.
    """
    names, hidden = DIALECTS["deepseek_v4"], layer.hidden
    inside = [(names[t.role].replace("layers.{}", f"mtp.{index}", 1), 1, t) for t in layer.tensors()]
    own = [(f"mtp.{index}.{name}", Tensor("mtp.norm", (hidden,), "vector")) for name in ("enorm", "hnorm", "norm")]
    own += [(f"mtp.{index}.{name}", Tensor("mtp.projection", (hidden, hidden))) for name in ("e_proj", "h_proj")]
    merge = [(f"mtp.{index}.hc_head", tensor) for tensor in hyper_head(hidden, streams)]
    rest = [(f"{name}.weight", 1, tensor) for name, tensor in own] + [(name, 1, tensor) for name, tensor in merge]
    return Tower("MTP layer", tuple(inside + rest), served=False, unique=False, layers=(layer,))
