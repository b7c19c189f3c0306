"""Decoders whose classes stand beside their files on the hub, and which are Llama but for switches and names.

Sources: the `modeling_*.py` of each repository and vLLM's class for it (Apache-2.0); the counts of published files
that hold them are in the tests.
"""

from __future__ import annotations

from typing import Final

import msgspec

from narrows.models.readers.build import PRE_NORMS
from narrows.models.readers.traits import Experts, Traits
from narrows.models.spec import Norms


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """Traits, other spellings of fields, and fields that change no size."""

    traits: Traits
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    idle: tuple[str, ...] = ()


_BIAS: Final = ("bias", True)
_LENGTH = (("max_position_embeddings", ("model_max_length", "max_sequence_length", "max_seq_len")),)
_PRE_AND_POST = Norms(("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"))

REMOTE: dict[str, Remote] = {
    "internlm": Remote(traits=Traits(qkv_bias=_BIAS, out_bias=_BIAS)),
    "internlm2": Remote(
        traits=Traits(dialect="internlm2", qkv_bias=_BIAS, out_bias=_BIAS, norms=Norms(("attention_norm", "ffn_norm")))
    ),
    "baichuan": Remote(
        traits=Traits(dialect="baichuan"), names=_LENGTH, idle=("z_loss_weight", "gradient_checkpointing")
    ),
    "orion": Remote(traits=Traits(norms=Norms(PRE_NORMS.names, bias=True)), names=_LENGTH),
    "aquila": Remote(traits=Traits()),
    "Yi": Remote(traits=Traits(dialect="yi", kv_heads=4, norms=Norms(("ln1", "ln2")))),
    # layers of Solar Pro also pass on what earlier ones made, without weights
    "solar": Remote(traits=Traits(), idle=("bskcn_1", "bskcn_2", "bskcn_3", "bskcn_4", "bskcn_tv", "sliding_window")),
    "PanguEmbedded": Remote(traits=Traits(qkv_bias=_BIAS, out_bias=_BIAS)),
    "mimo": Remote(
        traits=Traits(kv_heads=32, qkv_bias=("attention_bias", True)),
        idle=("sliding_window", "use_sliding_window", "use_mrope"),
    ),
    "step1": Remote(traits=Traits(), names=(("num_key_value_heads", ("num_attention_groups",)), *_LENGTH)),
    "minicpm": Remote(
        traits=Traits(qkv_bias=("attention_bias", False), tied=True),
        idle=("dim_model_base", "scale_depth", "scale_emb", "mup_denominator", "sparse_config"),
    ),
    "deepseek": Remote(
        traits=Traits(
            dialect="deepseek",
            qkv_bias=("attention_bias", False),
            out_bias=("attention_bias", False),
            experts=Experts(
                number=("n_routed_experts",),
                number_default=64,
                top_k_default=6,
                width="moe_intermediate_size",
                shared="n_shared_experts",
                first="first_k_dense_replace",
            ),
        )
    ),
    "plamo3": Remote(
        traits=Traits(
            dialect="plamo3",
            kv_heads=4,
            head_dim=128,
            qk_norm=True,
            norms=Norms(("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm")),
            windows=True,
        ),
        idle=("rope_local_theta", "sliding_window_pattern", "interleaved_sliding_window", "window_size"),
    ),
    "ouro": Remote(
        traits=Traits(
            dialect="ouro",
            norms=Norms((*PRE_NORMS.names, *(f"{name}_2" for name in PRE_NORMS.names))),
            windows=True,
            full_every=1,
        ),
        idle=("early_exit_threshold", "early_exit_step", "use_sliding_window", "sliding_window", "max_window_layers"),
    ),
    "xverse": Remote(traits=Traits(), names=_LENGTH),
    "grok-1": Remote(
        traits=Traits(dialect="grok1", norms=_PRE_AND_POST, tied=True, experts=Experts()),
        idle=("attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale", "max_attn_value"),
    ),
}
"""By `model_type`."""
