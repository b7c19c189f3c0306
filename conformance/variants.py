"""Hyper-parameters drawn at random such that a model of the family can still be built and run.

Fields are drawn by concept: the concepts a config class knows are tried all at once, and one after the other where
that cannot be built. What a class derives from others (layer types, say) is left for it to derive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from transformers import PreTrainedConfig

Values = dict[str, Any]

_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"),
    *("num_decoder_layers", "depth"),
)
_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim", "n_embed", "embed_dim")
_HEADS = (
    *("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    *("decoder_attention_heads", "attention_heads"),
)
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
_HEAD_WIDTHS = ("head_dim", "d_kv", "global_head_dim")
_INNER = (
    *("intermediate_size", "n_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_hidden_size"),
    *("moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size", "expert_ffn_hidden_size"),
    *("intermediate_size_mlp", "block_auto_adjust_ff_dim"),
)
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_experts_per_token")
_SWITCHES = (
    *("tie_word_embeddings", "attention_bias", "mlp_bias", "use_bias", "use_qk_norm", "qk_layernorm", "use_qkv_bias"),
    *("attention_out_bias", "mamba_proj_bias", "mamba_conv_bias", "use_conv_bias", "add_bias_linear", "lm_head_bias"),
    *("attention_k_eq_v", "use_double_wide_mlp", "multi_query", "new_decoder_architecture", "bias"),
)
_NESTED = ("text_config", "vision_config", "audio_config", "thinker_config", "encoder", "decoder")


def variant(
    base: type[PreTrainedConfig], start: Values, dice: random.Random, works: Callable[[Values], bool]
) -> Values | None:
    """Arguments of a config that `works`: `start`, with as many concepts changed as can be (None: not even one)."""
    known = base(**start).to_dict()
    together = joined(start, _changed(known, dice, lambda values: True))
    if works(together):
        return together
    changes = _changed(known, dice, lambda values: works(joined(start, values)))
    return joined(start, changes) if changes else None


def _changed(known: Values, dice: random.Random, works: Callable[[Values], bool]) -> Values:
    """Changes of one concept after another, in the config and in those nested in it, less those that do not work."""
    kept: Values = {}
    for path in _paths(known):
        for concept in CONCEPTS:
            here = joined(known, kept)
            for name in path:
                here = here[name]
            step = concept(here, dice)
            for name in reversed(path):
                step = {name: step} if step else {}
            step = _agreeing(known, step)
            if step and works(joined(kept, step)):
                kept = joined(kept, step)
    return kept


def _agreeing(known: Values, step: Values) -> Values:
    """A change of the decoder's sizes moves the copies of them at the top, where a class has those (Ovis 2)."""
    inner = step.get("text_config")
    if not isinstance(inner, dict):
        return step
    return {**step, **{name: inner[name] for name in _present(known, ("hidden_size", "vocab_size")) if name in inner}}


def _paths(known: Values, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield above
    for name in _NESTED:
        if isinstance(known.get(name), dict):
            yield from _paths(known[name], (*above, name))


def joined(values: Values, changes: Values) -> Values:
    """`values` with `changes`, nested ones merged."""
    merged = dict(values)
    for name, change in changes.items():
        merged[name] = joined(merged.get(name) or {}, change) if isinstance(change, dict) else change
    return merged


def _present(known: Values, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if isinstance(known.get(name), int) and not isinstance(known.get(name), bool)]


def _layers(known: Values, dice: random.Random) -> Values:
    """A number of layers, and where a class mixes kinds of layers, a mixture in which attention occurs."""
    layers = dice.randint(3, 6)
    changes: Values = dict.fromkeys(_present(known, _LAYERS), layers)
    if not changes:
        return {}
    for name in ("layer_types", "layers_block_type"):
        stated = known.get(name)
        if isinstance(stated, list) and stated and all(isinstance(kind, str) for kind in stated):
            kinds = sorted(set(stated))
            mixed = [dice.choice(kinds) for _ in range(layers)]
            attention = [kind for kind in kinds if "attention" in kind and "linear" not in kind]
            if attention:
                mixed[dice.randrange(layers)] = dice.choice(attention)
            changes[name] = mixed
    if "attn_layer_indices" in known:
        changes["attn_layer_indices"] = sorted(dice.sample(range(layers), dice.randint(1, layers - 1)))
    if _present(known, ("attn_layer_period",)):
        changes |= {"attn_layer_period": 2, "attn_layer_offset": dice.randint(0, 1)}
    if _present(known, ("expert_layer_period",)):
        changes |= {"expert_layer_period": 2, "expert_layer_offset": dice.randint(0, 1)}
    return changes


def _heads(known: Values, dice: random.Random) -> Values:
    """Heads, KV heads that divide them, and a width they divide: their own width where the family has one."""
    if _present(known, ("expand",)):
        # Mamba-2 has heads of another kind: see `_recurrent`
        return {name: dice.choice((32, 64, 96)) for name in _present(known, _WIDTHS)}
    kv = dice.choice((1, 2, 3))
    heads = kv * dice.choice((1, 2, 4))
    width = dice.choice((8, 16, 24))
    own = [name for name in _HEAD_WIDTHS if name in known]
    hidden = heads * width if not own or dice.random() < 0.5 else dice.choice((48, 64, 96))
    changes = dict.fromkeys(_present(known, _HEADS), heads)
    if not changes:
        return {}
    changes |= {name: kv for name in _KV_HEADS if name in known}
    changes |= dict.fromkeys(own, width)
    changes |= dict.fromkeys(_present(known, _WIDTHS), hidden)
    return changes


def _inner(known: Values, dice: random.Random) -> Values:
    return {name: dice.randrange(16, 200, 8) for name in _INNER if name in known}


def _experts(known: Values, dice: random.Random) -> Values:
    number = dice.choice((4, 6, 8))
    changes = dict.fromkeys(_present(known, _EXPERTS), number)
    if not changes:
        return {}
    # some classes leave the number of experts per token to the file
    changes |= {name: dice.randint(1, 3) for name in _TOP_K if name in known}
    for name in ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts"):
        changes |= {name: dice.randint(1, 2)} if _present(known, (name,)) else {}
    for name in ("first_k_dense_replace", "num_dense_layers"):
        changes |= {name: dice.randint(0, 2)} if _present(known, (name,)) else {}
    changes |= dict.fromkeys(_present(known, ("n_group", "topk_group")), 1)
    return changes


def _latent(known: Values, dice: random.Random) -> Values:
    if "kv_lora_rank" not in known:
        return {}
    rope = dice.choice((8, 16))
    changes: Values = {"kv_lora_rank": dice.choice((16, 24)), "qk_rope_head_dim": rope}
    # what these classes call head_dim is the rotary part
    changes |= {"head_dim": rope} if "head_dim" in known else {}
    changes |= {"num_key_value_heads": known["num_attention_heads"]} if "num_key_value_heads" in known else {}
    changes |= {"q_lora_rank": dice.choice((12, 20, None))} if "q_lora_rank" in known else {}
    changes |= {name: dice.choice((8, 12)) for name in _present(known, ("qk_nope_head_dim", "v_head_dim"))}
    return changes


def _window(known: Values, dice: random.Random) -> Values:
    """A window between the lengths measured; how often a layer sees everything."""
    changes: Values = {name: dice.randint(5, 20) for name in ("sliding_window", "attention_window") if name in known}
    changes |= {
        name: dice.randint(2, 3) for name in ("sliding_window_pattern", "full_attention_interval") if name in known
    }
    return changes


def _recurrent(known: Values, dice: random.Random) -> Values:
    """Sizes of state-space and linear-attention layers; heads × head width = inner width in Mamba-2."""
    changes: Values = {
        name: dice.choice((8, 16)) for name in _present(known, ("mamba_d_state", "state_size", "ssm_state_size"))
    }
    changes |= {name: dice.choice((3, 4)) for name in _present(known, ("mamba_d_conv", "conv_kernel", "conv_L_cache"))}
    for heads, width, expand, groups in (
        ("mamba_n_heads", "mamba_d_head", "mamba_expand", "mamba_n_groups"),
        ("num_heads", "head_dim", "expand", "n_groups"),
        ("mamba_num_heads", "mamba_head_dim", "expand", "n_groups"),
    ):
        if _present(known, (heads, expand)) == [heads, expand]:
            inner = known[expand] * known["hidden_size"]
            each = next(n for n in dice.sample((8, 16, 32), 3) if inner % n == 0)
            changes |= {heads: inner // each, width: each, groups: dice.choice((1, 2))}
            changes |= {"mamba_d_ssm": inner} if "mamba_d_ssm" in known else {}
    changes |= {
        name: dice.choice((8, 16)) for name in _present(known, ("linear_key_head_dim", "linear_value_head_dim"))
    }
    if _present(known, ("linear_num_key_heads",)):
        keys = dice.choice((1, 2))
        changes |= {"linear_num_key_heads": keys, "linear_num_value_heads": keys * dice.choice((1, 2))}
    return changes


def _vocabulary(known: Values, dice: random.Random) -> Values:
    if not _present(known, ("vocab_size",)):
        return {}
    changes: Values = {"vocab_size": dice.randint(90, 400)}
    for name in ("vocab_size_per_layer_input", "hidden_size_per_layer_input"):
        changes |= {name: dice.choice((16, 100))} if _present(known, (name,)) and known[name] else {}
    tokens = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id", "cls_token_id")
    changes |= {name: n for n, name in enumerate(tokens) if known.get(name) is not None}
    images = ("image_token_id", "image_token_index", "video_token_id", "vision_start_token_id", "audio_token_id")
    return changes | {name: 80 + n for n, name in enumerate(images) if _present(known, (name,))}


def _switches(known: Values, dice: random.Random) -> Values:
    return {name: dice.random() < 0.5 for name in _SWITCHES if isinstance(known.get(name), bool)}


CONCEPTS = (_layers, _heads, _inner, _experts, _latent, _window, _recurrent, _vocabulary, _switches)
