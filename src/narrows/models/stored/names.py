"""Names in files → names of the tensor table: wrappers, fused and split matrices, suffixes of packed weights. Data."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<=\.)([0-9]{1,9})(?=\.|$)")

WRAPPERS = frozenset(
    (
        *("model", "language_model", "text_model", "transformer", "backbone", "decoder", "gpt_neox", "llm"),
        *("base_model", "module", "_orig_mod", "thinker"),
    )
)
"""Parts of a path that stand around a decoder, in any order and number, and say nothing of a tensor."""
_LAYERS = ("layers.{}.", "h.{}.", "blocks.{}.", "block.{}.", "layer.{}.")

SPLITS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("attention.q", "attention.k", "attention.v"),
        ("qkv_proj", "qkv", "query_key_value", "Wqkv", "W_pack", "c_attn"),
    ),
    (("attention.q",), ("q_proj", "wq", "query")),
    (("attention.k",), ("k_proj", "wk", "key")),
    (("attention.v",), ("v_proj", "wv", "value")),
    (("attention.o",), ("o_proj", "wo", "out_proj", "dense", "c_proj")),
    *(
        entry
        for part in ("mlp", "shared", "experts")
        for entry in (
            ((f"{part}.gate", f"{part}.up"), ("gate_up_proj", "w13")),
            ((f"{part}.gate",), ("gate_proj", "w1")),
            ((f"{part}.up",), ("up_proj", "w3", "fc1", "c_fc")),
            ((f"{part}.down",), ("down_proj", "w2", "fc2", "c_proj")),
        )
    ),
)
"""Roles → how their matrix is called where files fuse or split otherwise than the dialect; in the place of the leaf."""

PACKED = frozenset(
    (
        *("qweight", "qzeros", "scales", "g_idx", "scale", "zero", "zeros", "biases"),
        *("weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale", "output_scale", "weight_zero_point"),
        *("weight_packed", "weight_shape", "weight_g_idx", "weight_global_scale", "input_global_scale"),
        *("absmax", "quant_map", "nested_absmax", "nested_quant_map", "SCB", "weight_format"),
        *("q_weight", "q_scale", "q_scale_max", "q_groups", "q_group_map", "q_perm", "q_invperm"),
        *("trellis", "suh", "svh", "su", "sv", "mcg", "mul1", "W_q", "meta", "nbits", "group_size", "axis"),
        *("weight_qdata", "weight_zero", "_data", "_scale", "_shift", "k_scale", "v_scale"),
    )
)
"""Last parts of names that belong to a packed weight and are none themselves."""
_BESIDE = re.compile(r"_(blocks|scales)$")

_BUFFERS = re.compile(r"(^|\.)(attn|attention|self_attn)\.(masked_)?bias$")
_TABLES = re.compile(
    r"(inv_freq|position_ids|cos_cached|sin_cached|total_params|slope_rate|(query|key|diagonal)_decay|act_fn\.(beta|eps)"
    r"|layer_scalar)$"
)
"""Buffers that transformers saves along: rotary tables, decays of MiniMax, constants of Apertus and Gemma 4."""
_PREDICTION = re.compile(r"(^|\.)mtp|(^|\.)(enorm|hnorm|eh_proj|shared_head)(\.|$)")
_TOWER = re.compile(r"vision|visual|image|patch_embed|audio|speech|multi_modal|mm_proj|aligner|(^|\.)projector|mlp1")
_COMPONENTS = tuple(
    (re.compile(expression), component)
    for expression, component in (
        (r"^\w+\.\{\}\.[^.]*(norm|ln_)[^.]*(\.|$)", "norms"),
        (r"shared_expert|shared_mlp", "shared expert"),
        (
            r"router|mlp\.gate(\.weight|\.bias|$)|moe\.gate(\.|$)|feed_forward\.gate\.|e_score_correction|expert_bias",
            "router",
        ),
        (r"experts?(\.|_|$)", "experts"),
        (r"linear_attn|delta", "linear attention"),
        (r"attn|attention|self_attn", "attention"),
        (r"mamba|mixer|ssm", "state space"),
        (r"conv", "short convolution"),
        (r"per_layer", "per-layer input"),
        (r"mlp|feed_forward|ffn|_moe\.", "mlp"),
        (r"norm|ln_|(^|\.)ln\d?(\.|$)", "norms"),
    )
)
_OUTER = tuple(
    (re.compile(expression), component)
    for expression, component in (
        (r"per_layer", "per-layer input"),
        (r"lm_head|embed_out|^output\b|^head\b|project_out", "head"),
        (r"embed|wte|wpe|tok_embeddings", "embedding"),
        (r"norm|ln_f", "norms"),
    )
)


def pattern_of(name: str) -> tuple[str, list[str]]:
    """(the name with its numbers as `{}`, the numbers)."""
    pieces = _NUMBER.split(name)
    return "{}".join(pieces[::2]), pieces[1::2]


def canonical(pattern: str) -> str:
    """A pattern without what stands around the decoder."""
    pieces = pattern.split(".")
    first = 0
    while first < len(pieces) - 1 and pieces[first] in WRAPPERS:
        first += 1
    return ".".join(pieces[first:])


def in_a_layer(pattern: str) -> bool:
    """Whether a canonical pattern is of a decoder layer; its first number is the layer then."""
    return pattern.startswith(_LAYERS)


def bases(pattern: str) -> list[str]:
    """What a name may be a part of, the nearest first: itself, then the weights it may help to store."""
    found = [pattern]
    if _BESIDE.search(pattern):
        found.append(_BESIDE.sub("", pattern))
    if not is_packed_part(pattern) and not pattern.endswith(".bias"):
        return found
    pieces = pattern.split(".")
    for cut in range(1, min(4, len(pieces) - 1)):
        base = ".".join(pieces[:-cut])
        found += [base + ".weight", base]
    return found


def is_packed_part(pattern: str) -> bool:
    """Whether the last part of a name says that it helps to store a packed weight."""
    leaf = pattern.rpartition(".")[2]
    return leaf in PACKED or "quant_state" in pattern or bool(_BESIDE.search(leaf))


def component_by_words(pattern: str, towers: tuple[str, ...]) -> str | None:
    """The component that a canonical pattern speaks of by its words alone; None where they say nothing."""
    if _BUFFERS.search(pattern):
        return "attention masks"
    if _TABLES.search(pattern):
        return "buffers"
    if _PREDICTION.search(pattern):
        return "MTP layer"
    layered = in_a_layer(pattern)
    if not layered and _TOWER.search(pattern):
        if re.search(r"project|merger|connector|aligner|mlp1", pattern) and "projector" in towers:
            return "projector"
        return "vision tower" if "vision tower" in towers else None
    rules = _COMPONENTS if layered else _OUTER
    return next((component for expression, component in rules if expression.search(pattern)), None)
