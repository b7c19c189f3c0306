"""Zamba 1 and 2: state spaces in every layer; in some, a transformer block first, whose weights are shared by all."""

from __future__ import annotations

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Chain, Mamba, Mamba2, linear
from narrows.models.readers.build import LINEAR, grouped, model
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_HYBRID = "hybrid"
_SHARED = ("attention.", "mlp.", "shared_norm.", "adapter.")
"""Roles of the block that the hybrid layers share."""
_RENAMED = (("mamba.", "hybrid_mamba."),)
_MAMBA_NORM = Norms(("input_layernorm",))
_HYBRID_NORM = Norms(("mamba_decoder.input_layernorm",))
_STEPS = {"time_step_min", "time_step_max", "time_step_floor", "time_step_limit", "use_mamba_kernels"}


def _kinds(c: Fields, layers: int) -> list[str] | None:
    """The kind of every layer under any of its names, older words translated."""
    for name in ("layers_block_type", "layer_types"):
        kinds = c.kinds(name, layers, (LINEAR, _HYBRID, "mamba"))
        if kinds is not None:
            return [LINEAR if kind == "mamba" else kind for kind in kinds]
    return None


def _layers(
    kinds: list[str],
    recurrent: Mamba | Mamba2,
    block: Attention,
    part: Dense,
    *,
    blocks: int = 1,
    shared: bool,
    adapters: int = 0,
    attention_adapters: bool = False,
) -> list[Layer]:
    """Plain layers and hybrid ones. blocks: transformer blocks that take turns; shared: whether layers that use the
    same block share its weights; adapters: rank of what a block adds for every layer that uses it (0: nothing)."""
    hidden, wide = recurrent.hidden, block.hidden
    plain = Layer(recurrent, None, _MAMBA_NORM, hidden)
    number = kinds.count(_HYBRID)
    owners: list[int] = []
    made: dict[int, Layer] = {}
    found = []
    for index, kind in enumerate(kinds):
        if kind != _HYBRID:
            found.append(plain)
            continue
        turn = len(owners) % blocks
        owners.append(index)
        owner = owners[turn] if shared and len(owners) > blocks else None
        if owner in made:
            found.append(made[owner])
            continue
        users = len(range(turn, number, blocks))
        link = [
            *linear("link.linear", hidden, hidden),
            Tensor("shared_norm.input", (wide,), "vector"),
            Tensor("shared_norm.pre_ff", (hidden,), "vector"),
            *_adapters(adapters, block, part, users, attention_adapters),
        ]
        mixer = Chain(hidden, (block, recurrent), tuple(link), _RENAMED)
        borrowed = () if owner is None else _SHARED
        layer = Layer(mixer, part, _HYBRID_NORM, hidden, owner=owner, borrowed=borrowed)
        if owner is not None:
            made[owner] = layer
        found.append(layer)
    return found


def _adapters(rank: int, block: Attention, part: Dense, users: int, attention: bool) -> list[Tensor]:
    """Low-rank additions to the shared projections, one pair per layer that uses the block.

    Tensor parallelism cuts their outputs as it cuts what they are added to.
    """
    if not rank:
        return []
    pairs = {"mlp": (2 * part.intermediate, part.hidden, part.intermediate)}
    if attention:
        pairs |= dict.fromkeys("qkv", (block.hidden, block.hidden, block.heads))
    return [
        tensor
        for name, (out, inner, shards) in pairs.items()
        for tensor in (
            Tensor(f"adapter.{name}_down", (rank, inner), shards=rank, copies=users),
            Tensor(f"adapter.{name}_up", (out, rank), shards=shards, copies=users),
        )
    ]


def read_zamba(c: Fields) -> ModelSpec:
    """Zamba 7B: Mamba-1 in heads, one shared block."""
    count, hidden = c.layers("num_hidden_layers", default=76), c.size("hidden_size", default=3712)
    kinds = _kinds(c, count)
    period = c.size("attn_layer_period", default=6)
    offset = c.size("attn_layer_offset", default=4, least=0)
    if kinds is None:
        rest = [_HYBRID if i % period == offset else LINEAR for i in range(count - 3)]
        kinds = [LINEAR, LINEAR, _HYBRID, *rest]
    heads, inner = c.size("n_mamba_heads", default=2), c.size("mamba_expand", default=2) * hidden
    c.divide(inner, heads, "mamba_expand", "n_mamba_heads")
    rank = c.raw("mamba_dt_rank", default="auto")
    if isinstance(rank, str) and rank != "auto":
        raise BadInput("config field 'mamba_dt_rank' must be a whole number or 'auto'")
    mamba = Mamba(
        hidden,
        inner,
        c.size("mamba_d_state", default=16),
        c.size("mamba_d_conv", default=4),
        -(-hidden // 16) if rank == "auto" else c.size("mamba_dt_rank"),
        conv_bias=c.flag("mamba_conv_bias", True),
        proj_bias=c.flag("mamba_proj_bias", False),
        inner_norms=False,
        heads=heads,
    )
    wide = c.maybe_size("attention_hidden_size", default=None) or 2 * hidden
    attending = c.size("num_attention_heads", default=16)
    width = c.maybe_size("attention_head_dim", "head_dim", default=None) or 2 * hidden // attending
    block = _block(c, wide, attending, width, c.size("num_key_value_heads", default=16), hidden)
    part = Dense(hidden, c.size("intermediate_size", default=14848))
    c.read |= _STEPS | {"hidden_mamba_act"}
    tied = c.flag("tie_word_embeddings", True)
    groups = grouped(_layers(kinds, mamba, block, part, shared=tied))
    return model(c, groups, family="zamba", dialect="zamba", tied=True)


def _block(c: Fields, wide: int, heads: int, width: int, kv: int, hidden: int) -> Attention:
    """The attention of the shared block: it reads the layer's input and the embedding side by side."""
    if width < 1:
        raise BadInput(
            "config field '{field}' is too large: a head would have no width", field=c.path + "num_attention_heads"
        )
    c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    return Attention(wide, heads, kv, width, output=hidden)


_ZAMBA2 = [LINEAR] + ([LINEAR] * 5 + [_HYBRID]) * 7 + [LINEAR] * 4 + [_HYBRID] + [LINEAR] * 3 + [_HYBRID] + [LINEAR] * 2
"""The architecture's default, for 54 layers."""


def read_zamba2(c: Fields) -> ModelSpec:
    """Zamba2: Mamba-2, one or two shared blocks that take turns, each with low-rank adapters per use."""
    count, hidden = c.layers("num_hidden_layers", default=54), c.size("hidden_size", default=2560)
    kinds = _kinds(c, count)
    if kinds is None:
        if count != len(_ZAMBA2):
            raise BadInput(
                "config field '{field}' is missing; narrows will not guess it: take the complete config.json of the "
                "model",
                field=c.path + "layers_block_type",
            )
        kinds = _ZAMBA2
    heads, bias = c.size("n_mamba_heads", default=8), c.flag("add_bias_linear", False)
    expand = c.raw("mamba_expand", default=2)
    if isinstance(expand, bool) or not isinstance(expand, int | float) or not 0 < expand <= 1024:
        raise BadInput("config field '{field}' must be a number", field=c.path + "mamba_expand")
    mamba = Mamba2(
        hidden,
        heads,
        c.divide(int(expand * hidden), heads, "mamba_expand", "n_mamba_heads"),
        c.size("mamba_d_state", default=64),
        c.size("mamba_ngroups", default=1),
        c.size("mamba_d_conv", default=4),
        in_bias=bias,
        out_bias=bias,
    )
    attending = c.size("num_attention_heads", default=32)
    kv = c.maybe_size("num_key_value_heads", default=None) or attending
    block = _block(c, 2 * hidden, attending, 2 * hidden // attending, kv, hidden)
    part = Dense(hidden, c.maybe_size("intermediate_size", default=None) or 4 * hidden, bias=bias)
    layers = _layers(
        kinds,
        mamba,
        block,
        part,
        blocks=c.size("num_mem_blocks", default=1),
        # transformers ties the blocks only where it ties the head
        shared=c.flag("tie_word_embeddings", True),
        adapters=c.size("adapter_rank", default=128),
        attention_adapters=c.flag("use_shared_attention_adapter", False),
    )
    c.read |= _STEPS | {name for name in c.values if name.startswith(("use_", "mamba_", "attention_h", "ft_lora"))}
    c.read |= {"kv_channels", "num_query_groups", "hybrid_layer_ids", "chunk_size", "state_size", "lora_rank"}
    c.read |= {"conv_dimension", "head_dim", "ffn_hidden_size", "sliding_window"}
    return model(c, grouped(layers), family="zamba2", dialect="zamba2", tied=True)
