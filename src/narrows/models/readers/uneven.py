"""Decoders whose layers differ in width, heads or parts: Nemotron NAS (Puzzle), DeciLM, OpenELM."""

from __future__ import annotations

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields, as_factor
from narrows.models.mixers import Attention, Mixer, NoMixer
from narrows.models.readers.build import PRE_NORMS, dense, grouped, model, stack
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_MOST_HEADS = 2**20


def read_nemotron_nas(c: Fields) -> ModelSpec:
    """Llama Nemotron 51B, Super 49B, Ultra 253B: `block_configs` says for every layer what it keeps of Llama's.

    A part can be there at a size of its own, be one matrix instead, or be missing along with its norm.
    """
    hidden, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.layers("num_hidden_layers")
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    blocks = c.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise BadInput("config field 'block_configs' must list one object per layer, {count} in all", count=layers)
    made: dict[str, Layer] = {}
    found = []
    for index, block in enumerate(blocks):
        key = repr(block)
        if key not in made:
            inner = Fields({"block": block}, f"block_configs.{index}.").nested("block")
            made[key] = _block(inner, hidden, heads, width, c.flag("attention_bias", False), c.flag("mlp_bias", False))
        found.append(made[key])
    c.read |= {"num_key_value_heads", "intermediate_size", "head_dim"}
    return model(c, grouped(found), family="nemotron-nas", dialect="nemotron_nas")


def _block(c: Fields, hidden: int, heads: int, width: int, bias: bool, mlp_bias: bool) -> Layer:
    attention, part = c.nested("attention"), c.nested("ffn")
    norms, beside = [], []
    mixer: Mixer = NoMixer(hidden)
    if attention.flag("replace_with_linear", False):
        beside.append(Tensor("link.linear", (hidden, hidden)))
    elif not attention.flag("no_op", False):
        group = attention.size("n_heads_in_group", most=heads)
        kv = attention.divide(heads, group, "num_attention_heads", "n_heads_in_group")
        if attention.raw("num_sink_tokens") or attention.raw("sparsify"):
            raise BadInput(
                "config field '{field}' asks for sinks or sparse weights in a layer, which narrows does not read yet",
                field=attention.path.rstrip("."),
            )
        window = attention.maybe_size("window_length", default=None)
        mixer = Attention(hidden, heads, kv, width, window=window, qkv_bias=bias, out_bias=bias)
    if beside or isinstance(mixer, Attention):
        norms.append(PRE_NORMS.names[0])
    feed_forward = None
    if part.flag("replace_with_linear", False):
        beside.append(Tensor("adapter.linear", (hidden, hidden)))
        norms.append(PRE_NORMS.names[1])
    elif not part.flag("no_op", False):
        feed_forward = Dense(hidden, _widened(part, hidden), True, mlp_bias)
        norms.append(PRE_NORMS.names[1])
    return Layer(mixer, feed_forward, Norms(tuple(norms)), hidden, beside=tuple(beside))


def _widened(c: Fields, hidden: int) -> int:
    """Width of a gated part: two thirds of `ffn_mult` times the hidden size, up to a multiple of 256."""
    stated = c.maybe_size("intermediate_size", default=None)
    return stated or _multiple(int(2 * as_factor(c.raw("ffn_mult"), c.path + "ffn_mult") * hidden / 3), 256)


def _multiple(width: int, of: int) -> int:
    return max(-(-width // of), 1) * of


def read_deci(c: Fields) -> ModelSpec:
    """DeciLM 6B and 7B: Llama with as many KV heads as each layer needs."""
    layers, heads, hidden = c.layers("num_hidden_layers"), c.size("num_attention_heads"), c.size("hidden_size")
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    listed = _per_layer(c, "num_key_value_heads_per_layer", layers)
    for kv in set(listed):
        c.divide(heads, kv, "num_attention_heads", "num_key_value_heads_per_layer")
    kinds = {kv: Attention(hidden, heads, kv, width) for kv in set(listed)}
    c.read |= {"num_key_value_heads", "naive_attention_prefill", "naive_attention_decode_batched"}
    c.read |= {"naive_attention_decode_single"}
    return model(c, stack([kinds[kv] for kv in listed], [dense(c)] * layers, PRE_NORMS), family="deci")


def _per_layer(c: Fields, name: str, layers: int) -> list[int]:
    """A list of one whole number per layer."""
    value = c.raw(name)
    whole = isinstance(value, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 < one <= _MOST_HEADS for one in value
    )
    if not whole or len(value) != layers:
        raise BadInput(
            "config field '{field}' must list one whole number per layer, {count} in all",
            field=c.path + name,
            count=layers,
        )
    return list(value)


def read_openelm(c: Fields) -> ModelSpec:
    """OpenELM: heads and feed-forward grow from layer to layer."""
    hidden, layers, width = c.size("model_dim"), c.layers("num_transformer_layers"), c.size("head_dim")
    queries, keys = _per_layer(c, "num_query_heads", layers), _per_layer(c, "num_kv_heads", layers)
    factors, divisor = c.raw("ffn_multipliers"), c.size("ffn_dim_divisor", default=256)
    if not isinstance(factors, list) or len(factors) != layers:
        raise BadInput(
            "config field '{field}' must list one number per layer, {count} in all",
            field="ffn_multipliers",
            count=layers,
        )
    norm, gated = c.flag("normalize_qk_projections", True), c.flag("ffn_with_glu", True)
    mixers, parts = [], []
    for query, kv, factor in zip(queries, keys, factors, strict=True):
        c.divide(query, kv, "num_query_heads", "num_kv_heads")
        mixers.append(Attention(hidden, query, kv, width, qk_norm=norm))
        parts.append(Dense(hidden, _rounded(as_factor(factor, "ffn_multipliers") * hidden, divisor), gated))
    c.values = {
        **c.values,
        "max_position_embeddings": c.raw("max_context_length", default=2048),
        "tie_word_embeddings": c.flag("share_input_output_layers", True),
    }
    c.read |= {"qkv_multipliers", "num_gqa_groups", "rope_freq_constant", "rope_max_length", "activation_fn_name"}
    c.read |= {"normalization_layer_name", "tie_word_embeddings"}
    return model(c, stack(mixers, parts, Norms(("attn_norm", "ffn_norm"))), family="openelm", dialect="openelm")


def _rounded(width: float, divisor: int) -> int:
    """To the nearest multiple, but never down by more than a tenth (Apple's corenet)."""
    near = max(divisor, int(width + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * width else near
