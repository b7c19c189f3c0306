"""Decoders that run some layers several times for every token: Dory and HRM-Text."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import MOST_LAYERS, Fields
from narrows.models.mixers import Attention, Looped, Mixer, linear
from narrows.models.readers.build import attention, dense, full_every, grouped, model, outside, windowed
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_MOST_LOOPS = 1000
_NO_NORMS = Norms(())


def _gate(own: Attention, *, bias: bool = False) -> list[Tensor]:
    """A gate on the attention's output that is projected on its own."""
    return linear("attention.gate", own.heads * own.head_dim, own.hidden, shards=own.heads, bias=bias)


def _halved(c: Fields, names: tuple[str, ...]) -> None:
    """Files list attention and feed-forward as blocks of their own: two of them are one layer here."""
    kinds = c.raw("layer_types")
    if not isinstance(kinds, list) or "mlp" not in kinds:
        return
    changes = {name: value // 2 for name in names if isinstance(value := c.raw(name), int)}
    c.values = {**c.values, **changes, "layer_types": kinds[::2]}


def read_dory(c: Fields) -> ModelSpec:
    """Dory: a normalized transformer (nGPT) whose middle layers run twice, each time with a cache of its own."""
    _halved(c, ("num_hidden_layers", "n_input_layers", "n_recurrent_layers", "n_output_layers"))
    layers = c.layers("num_hidden_layers", default=36)
    kinds = full_every(c, layers, 4)
    bias = c.flag("attention_bias", False)
    own = attention(c, kv_heads=4, head_dim=256, qkv_bias=bias, out_bias=bias)
    width = own.heads * own.head_dim
    scales = [Tensor(f"attention.{name}", (width,), "vector", own.heads) for name in ("sqk", "gate_scale")]
    own = msgspec.structs.replace(own, beside=(*_gate(own), *scales))
    mixers = windowed(own, c.size("sliding_window", default=1024), kinds)
    first, last = c.size("n_input_layers", default=8, least=0), c.size("n_output_layers", default=8, least=0)
    stated = c.maybe_size("n_recurrent_layers", default=None, least=0)
    middle = layers - first - last if stated is None else stated
    if middle < 0 or first + middle + last != layers:
        raise BadInput(
            "config field '{field}' contradicts the number of layers; take the config.json of the original model",
            field=c.path + "n_recurrent_layers",
        )
    loops = c.size("n_recurrent_loops", default=2, most=_MOST_LOOPS)
    if c.raw("recurrent_kv_cache_mode", default="per_loop") == "last_loop":
        loops = 1
    part = dense(c, bias=c.flag("mlp_bias", False))
    wide, hidden = part.intermediate, own.hidden
    beside = (
        *(Tensor(f"branch.lambda_{i}", (hidden,), "vector") for i in (1, 2)),
        *(Tensor(f"mlp.{name}_scale", (wide,), "vector", wide) for name in ("gate", "up")),
    )
    c.read.add("ngpt_alpha_init")
    turned = {id(mixer): Looped(mixer, loops) if loops > 1 else mixer for mixer in mixers}
    made = [
        Layer(turned[id(mixer)] if first <= i < first + middle else mixer, part, _NO_NORMS, hidden, beside=beside)
        for i, mixer in enumerate(mixers)
    ]
    spec = model(c, grouped(made), family="dory", dialect="dory", final_norm=False)
    scale = Tensor("after.logit_scale", (spec.vocab,), "vector", spec.vocab)
    return msgspec.structs.replace(spec, extra=outside(after=[scale]))


def read_hrm_text(c: Fields) -> ModelSpec:
    """HRM-Text: two stacks of layers; every high cycle runs the low stack several times, then the high one."""
    high, low = c.size("H_cycles", default=2, most=_MOST_LOOPS), c.size("L_cycles", default=3, most=_MOST_LOOPS)
    # transformers writes out the layers of all cycles as num_hidden_layers, and those of one stack beside
    each = c.maybe_size("num_layers_per_stack", default=None, most=MOST_LAYERS)
    c.read.add("num_hidden_layers")
    each = c.layers("num_hidden_layers", default=16) if each is None else each
    bias = c.flag("attention_bias", False)
    c.read.add("num_key_value_heads")
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    own = Attention(hidden, heads, heads, c.size("head_dim", default=128), qkv_bias=bias, out_bias=bias)
    own = msgspec.structs.replace(own, beside=tuple(_gate(own, bias=bias)))
    part: Dense = dense(c, bias=c.flag("mlp_bias", False))
    stacks: list[Mixer] = [Looped(own, high * low), Looped(own, high)]
    layers = [Layer(mixer, part, _NO_NORMS, hidden) for mixer in stacks for _ in range(each)]
    c.read |= {"L_bp_cycles", "embedding_scale", "prefix_lm"}
    return model(
        c,
        grouped(layers),
        family="hrm_text",
        dialect="hrm_text",
        final_norm=False,
        extra=outside(before=[Tensor("before.low_state", (hidden,), "vector")]),
    )
