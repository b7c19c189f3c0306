"""Decoders that recur: RecurrentGemma, RWKV-4, xLSTM."""

from __future__ import annotations

from narrows.models.feedforward import ChannelMix, Dense
from narrows.models.fields import LARGEST, Fields
from narrows.models.mixers import Attention, GatedRecurrence, MatrixMemory, Mixer, Rwkv4
from narrows.models.readers.build import grouped, model, stack, untied
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_TEMPORAL = Norms(("temporal_pre_norm", "channel_pre_norm"))


def read_recurrent_gemma(c: Fields) -> ModelSpec:
    """RecurrentGemma (Griffin): two recurrent layers to one of attention over a window."""
    layers, hidden = c.layers("num_hidden_layers"), c.size("hidden_size")
    heads = c.size("num_attention_heads", default=10)
    kv = c.maybe_size("num_key_value_heads", default=None) or heads
    c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    bias = c.flag("attention_bias", False)
    pattern = c.raw("block_types", "_block_types", default=["recurrent", "recurrent", "attention"])
    if not isinstance(pattern, list) or not pattern or any(one not in ("recurrent", "attention") for one in pattern):
        raise BadInput("config field '{field}' must be a list of: recurrent, attention", field=c.path + "block_types")
    width = c.maybe_size("head_dim", default=None) or hidden // heads
    attending = Attention(
        hidden,
        heads,
        kv,
        width,
        c.size("attention_window_size", "sliding_window", default=2048),
        qkv_bias=bias,
        out_bias=True,
    )
    channels = c.maybe_size("lru_width", default=None) or hidden
    conv = c.size("conv1d_width", default=4)
    c.divide(channels, heads, "lru_width", "num_attention_heads")
    recurrent = GatedRecurrence(hidden, heads, channels, conv)
    kinds = [pattern[i % len(pattern)] for i in range(layers)]
    mixers: list[Mixer] = [recurrent if kind == "recurrent" else attending for kind in kinds]
    inner = c.size("intermediate_size", default=7680) // 2
    if not inner or not width:
        raise BadInput(
            "config field '{field}' is too small; take the config.json of the original model",
            field=c.path + ("hidden_size" if inner else "intermediate_size"),
        )
    part = Dense(hidden, inner, bias=True)
    c.read |= {
        "logits_soft_cap",
        "w_init_variance_scale",
        "final_w_init_variance_scale",
        "layers_block_type",
    }
    c.read |= {"embeddings_scale_by_sqrt_dim", "layer_types"}
    groups = stack(mixers, [part] * layers, _TEMPORAL)
    return model(c, groups, family="recurrent_gemma", dialect="recurrent_gemma", tied=True)


_LN = Norms(("ln1", "ln2"), bias=True)


def read_rwkv(c: Fields) -> ModelSpec:
    """RWKV-4: the first layer has a norm before it."""
    layers, hidden = c.layers("num_hidden_layers"), c.size("hidden_size")
    mixer = Rwkv4(hidden, c.maybe_size("attention_hidden_size", default=None) or hidden)
    part = ChannelMix(hidden, c.maybe_size("intermediate_size", default=None) or 4 * hidden)
    first = tuple(Tensor(f"norm.pre_ln{bias}", (hidden,), "vector") for bias in ("", ".bias"))
    head = Layer(mixer, part, _LN, hidden, beside=first)
    groups = grouped([head] + [Layer(mixer, part, _LN, hidden)] * (layers - 1))
    c.read |= {"rescale_every"}
    c.values = {**c.values, "max_position_embeddings": c.raw("context_length", "max_position_embeddings", default=1024)}
    return model(c, groups, family="rwkv", dialect="rwkv", final_norm_bias=True)


_XLSTM = Norms(("norm_mlstm", "norm_ffn"))


def read_xlstm(c: Fields) -> ModelSpec:
    """xLSTM 7B: a matrix memory and a feed-forward part per block."""
    hidden = c.maybe_size("hidden_size", default=4096) or c.size("embedding_dim")
    layers = c.maybe_size("num_blocks", default=None) or c.layers("num_hidden_layers", default=32)
    layers = Fields({"num_blocks": layers}, c.path).layers("num_blocks")
    stated = c.maybe_size("embedding_dim", default=None)
    if stated is not None and stated != hidden:
        raise BadInput(
            "config field '{field}' is {value}, and the hidden size {hidden}; the file contradicts itself",
            field=c.path + "embedding_dim",
            value=stated,
            hidden=hidden,
        )
    heads, bias = c.size("num_heads", default=8), c.flag("use_bias", False)
    keys, values = (int(hidden * c.factor(f"{side}_dim_factor", usual)) for side, usual in (("qk", 0.5), ("v", 1.0)))
    key, value = (c.divide(n, heads, f"{side}_dim_factor", "num_heads") for n, side in ((keys, "qk"), (values, "v")))
    multiple = c.size("ffn_round_up_to_multiple_of", default=64)
    inner = int((hidden * c.factor("ffn_proj_factor", 2.667) + multiple - 1) // multiple * multiple)
    if not key or not value or not 0 < inner <= LARGEST:
        raise BadInput(
            "config field '{field}' is out of range; take the config.json of the original model",
            field=c.path + ("ffn_proj_factor" if key and value else "qk_dim_factor"),
        )
    norms = Norms(_XLSTM.names, bias=bias)
    part = Dense(hidden, inner, bias=bias)
    mixers = [MatrixMemory(hidden, heads, key, value, bias, counts=first) for first in (True, False)]
    groups = stack([mixers[min(i, 1)] for i in range(layers)], [part] * layers, norms)
    c.read |= _XLSTM_UNREAD | {"num_hidden_layers"}
    untied(c)
    return model(c, groups, family="xlstm", dialect="xlstm")


_XLSTM_UNREAD = {
    *("norm_reduction_force_float32", "add_out_norm", "chunkwise_kernel", "sequence_kernel", "step_kernel", "mode"),
    *("chunk_size", "return_last_states", "autocast_kernel_dtype", "eps", "inference_state_dtype", "gate_soft_cap"),
    *("output_logit_soft_cap", "weight_mode", "max_inference_chunksize"),
}
"""Fields of kernels and numerics; `weight_mode` only says which matrices stand in one."""
