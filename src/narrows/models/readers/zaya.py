"""ZAYA: attention in a convolved, compressed space; a router that is a small network; scaled residuals."""

from __future__ import annotations

from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, CompressedConvolution
from narrows.models.readers.build import PRE_NORMS, attention, grouped, model
from narrows.models.spec import Layer, ModelSpec
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_SLIDING, _FULL = "hybrid_sliding", "hybrid"


def _router(hidden: int, width: int, classes: int, *, carried: bool) -> tuple[Tensor, ...]:
    """Down, a norm, two layers, out; one class more than experts skips them. carried: a share of the layer before."""
    found = [
        Tensor("router.down", (width, hidden), "plain"),
        Tensor("router.down.bias", (width,), "vector"),
        Tensor("router.norm", (width,), "vector"),
        *(Tensor(f"router.fc{i}", (width, width), "plain") for i in (1, 2)),
        *(Tensor(f"router.fc{i}.bias", (width,), "vector") for i in (1, 2)),
        Tensor("router", (classes, width), "plain"),
        Tensor("router.correction", (classes,), "buffer", format="float32"),
    ]
    return (*found, Tensor("router.carried", (width,), "vector")) if carried else tuple(found)


def read_zaya(c: Fields) -> ModelSpec:
    """ZAYA1 8B."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    kinds = c.kinds("layer_types", layers, (_SLIDING, _FULL)) or [_FULL] * layers
    window = c.maybe_size("sliding_window", default=None)
    if window is None and _SLIDING in kinds:
        raise BadInput(
            "config field '{field}' is missing, and the file has sliding layers; take the complete config.json",
            field=c.path + "sliding_window",
        )
    times = [c.size(f"cca_time{i}", default=2, most=1024) for i in (0, 1)]
    of = {
        kind: CompressedConvolution(_own(c, bias, window if kind == _SLIDING else None), *times)
        for kind in (_SLIDING, _FULL)
    }
    hidden = of[_FULL].hidden
    number, width = c.size("num_experts", "num_local_experts", default=16), c.size("router_hidden_size", default=256)
    if c.size("num_experts_per_tok", default=1) != 1:
        raise BadInput(
            "config field '{field}' must be 1: such a model sends a token to one expert",
            field=c.path + "num_experts_per_tok",
        )
    inner = c.size("moe_intermediate_size", default=2048)
    scales = tuple(
        Tensor(f"residual.{part}_{name}", (hidden,), "vector")
        for part in ("attention", "mlp")
        for name in ("scale", "bias", "residual_scale", "residual_bias")
    )
    parts = [
        MixtureOfExperts(hidden, number, 1, inner, router=_router(hidden, width, number + 1, carried=carried))
        for carried in (False, True)
    ]
    made = {
        (kind, first): Layer(mixer, parts[not first], PRE_NORMS, hidden, beside=scales)
        for kind, mixer in of.items()
        for first in (True, False)
    }
    entry = tuple(("norms", Tensor(f"input.{name}", (hidden,), "vector")) for name in ("scale", "bias"))
    return model(
        c,
        grouped(made[kind, i == 0] for i, kind in enumerate(kinds)),
        family="zaya",
        dialect="zaya",
        tied=True,
        head_bias=c.flag("lm_head_bias", False),
        extra=entry,
    )


def _own(c: Fields, bias: bool, window: int | None) -> Attention:
    found = attention(c, kv_heads=2, head_dim=128, qkv_bias=bias, out_bias=bias, window=window)
    if found.kv_heads * found.head_dim % 2:
        raise BadInput(
            "config field '{field}' is odd: half of every value comes from the token before", field=c.path + "head_dim"
        )
    return found
