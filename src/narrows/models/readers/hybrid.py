"""State spaces, alone (Mamba 1 and 2) and with attention: Bamba, Falcon-H1, Granite 4, Nemotron-H."""

from __future__ import annotations

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mamba, Mamba2, Mixer, NoMixer, Parallel
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    attention,
    dense,
    grouped,
    mixture,
    model,
    stack,
    state_format,
    untied,
)
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.text import BadInput

_NORM = Norms(("norm",))
_TWO_NORMS = Norms(("input_layernorm", "pre_ff_layernorm"))
_OLD_KINDS = {"mamba": LINEAR, "attention": FULL}
"""Names of layer kinds in files from before transformers 5."""
_STEPS = {"time_step_rank", "time_step_scale", "time_step_min", "time_step_max", "time_step_limit", "time_step_floor"}
_UNREAD = _STEPS | {
    *("time_step_init_scheme", "rescale_prenorm_residual", "residual_in_fp32", "mixer_rms_eps", "chunk_size"),
    *("mamba_chunk_size", "use_falcon_mambapy", "mamba_expand", "expand", "intermediate_size", "mamba_ssm_cache_dtype"),
    *("mamba_hidden_act", "mlp_hidden_act", "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor"),
}
"""Fields of state spaces that change neither sizes nor work, or that repeat others."""


def _mamba1(c: Fields, family: str) -> ModelSpec:
    hidden, layers = c.size("hidden_size"), c.layers("num_hidden_layers")
    stated = c.raw("time_step_rank", default="auto")
    if isinstance(stated, str) and stated != "auto":
        raise BadInput("config field 'time_step_rank' must be a whole number or 'auto'")
    rank = -(-hidden // 16) if stated in ("auto", None) else c.size("time_step_rank")
    # the width that a file states is the one it was built with; transformers writes it out
    inner = c.maybe_size("intermediate_size", default=None) or c.size("expand", default=2) * hidden
    mixer = Mamba(
        hidden,
        inner,
        c.size("state_size", default=16),
        c.size("conv_kernel", default=4),
        rank,
        conv_bias=c.flag("use_conv_bias", True),
        proj_bias=c.flag("use_bias", False),
        inner_norms=False,
    )
    c.read |= _UNREAD
    groups = grouped([Layer(mixer, None, _NORM, hidden)] * layers)
    return model(c, groups, family=family, dialect="mamba", tied=True)


def read_mamba(c: Fields) -> ModelSpec:
    """Mamba 1."""
    return _mamba1(c, "mamba")


def read_falcon_mamba(c: Fields) -> ModelSpec:
    """Falcon Mamba: norms without weights on the step, B and C."""
    return _mamba1(c, "falcon_mamba")


def read_mamba2(c: Fields) -> ModelSpec:
    """Mamba 2 and Codestral Mamba."""
    hidden, layers = c.size("hidden_size"), c.layers("num_hidden_layers")
    bias = c.flag("use_bias", False)
    mixer = Mamba2(
        hidden,
        c.size("num_heads", default=128),
        c.size("head_dim", default=64),
        c.size("state_size", default=128),
        c.size("n_groups", default=8),
        c.size("conv_kernel", default=4),
        conv_bias=c.flag("use_conv_bias", True),
        in_bias=bias,
        out_bias=bias,
        state_format=state_format(c, "mamba_ssm_cache_dtype"),
    )
    c.read |= _UNREAD
    groups = grouped([Layer(mixer, None, _NORM, hidden)] * layers)
    return model(c, groups, family="mamba2", dialect="mamba", tied=False)


def _mamba2_of(c: Fields, hidden: int, inner: int, *, out_bias: bool | None = None, gate_norm: bool = True) -> Mamba2:
    """The state space of the configs that name its fields `mamba_*`."""
    heads = c.size("mamba_n_heads", default=128)
    if c.raw("mamba_d_head", default="auto") in ("auto", None):
        width = c.divide(inner, heads, "mamba_expand", "mamba_n_heads")
    else:
        width = c.size("mamba_d_head")
    bias = c.flag("mamba_proj_bias", False)
    mixer = Mamba2(
        hidden,
        heads,
        width,
        c.size("mamba_d_state", default=256),
        c.size("mamba_n_groups", default=1),
        c.size("mamba_d_conv", default=4),
        conv_bias=c.flag("mamba_conv_bias", True),
        in_bias=bias,
        out_bias=bias if out_bias is None else out_bias,
        gate_norm=gate_norm,
    )
    c.read |= _STEPS | {"mamba_chunk_size", "mamba_expand"}
    return mixer


def read_bamba(c: Fields) -> ModelSpec:
    """Bamba: a few attention layers among state spaces."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=8, qkv_bias=bias, out_bias=bias)
    mamba = _mamba2_of(c, full.hidden, c.size("mamba_expand", default=2) * full.hidden)
    at = c.indices("attn_layer_indices")
    mixers: list[Mixer] = [full if i in at else mamba for i in range(layers)]
    part = dense(c, bias=c.flag("mlp_bias", False))
    c.read |= {"layers_block_type", "layer_types", "z_loss_coefficient"}
    return model(c, stack(mixers, [part] * layers, _TWO_NORMS), family="bamba", dialect="jamba")


def read_falcon_h1(c: Fields) -> ModelSpec:
    """Falcon-H1: attention and a state space side by side in every layer."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=8, qkv_bias=bias, out_bias=bias)
    inner = c.maybe_size("mamba_d_ssm", default=1024) or c.size("mamba_expand", default=2) * full.hidden
    mamba = _mamba2_of(
        c,
        full.hidden,
        inner,
        out_bias=c.flag("projectors_bias", False),
        gate_norm=c.flag("mamba_rms_norm", False),
    )
    c.read |= {name for name in c.values if name.endswith(("_multiplier", "_multipliers"))}
    c.read |= {"mamba_norm_before_gate", "mamba_use_mlp", "layers_block_type", "layer_types"}
    part = dense(c, bias=c.flag("mlp_bias", False))
    mixers: list[Mixer] = [Parallel(full, mamba)] * layers
    return model(c, stack(mixers, [part] * layers, _TWO_NORMS), family="falcon_h1", dialect="jamba")


def _kinds(c: Fields, layers: int, *names: str, known: tuple[str, ...] = (LINEAR, FULL)) -> list[str] | None:
    """The kind of every layer under any of these names, older words translated."""
    for name in names:
        kinds = c.kinds(name, layers, (*known, *_OLD_KINDS))
        if kinds is not None:
            return [_OLD_KINDS.get(kind, kind) for kind in kinds]
    return None


def read_granitemoehybrid(c: Fields) -> ModelSpec:
    """Granite 4: state spaces, a few attention layers, a shared feed-forward beside routed experts (or alone)."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, qkv_bias=bias, out_bias=bias)
    kinds = _kinds(c, layers, "layer_types", "layers_block_type") or [LINEAR] * layers
    mamba: Mixer | None = None
    if LINEAR in kinds:
        mamba = _mamba2_of(c, full.hidden, c.size("mamba_expand", default=2) * full.hidden)
    number = c.size("num_local_experts", default=8, least=0)
    shared, width = c.size("shared_intermediate_size", default=1024), c.size("intermediate_size")
    part: FeedForward
    if number:
        top_k = c.size("num_experts_per_tok", default=min(2, number), most=number)
        part = MixtureOfExperts(full.hidden, number, top_k, width, shared=shared)
    else:
        part = Dense(full.hidden, shared)
        c.read.add("num_experts_per_tok")
    c.read |= {name for name in c.values if name.startswith("mamba_")} | _STEPS | {"position_embedding_type"}
    mixers: list[Mixer] = [full if kind == FULL or mamba is None else mamba for kind in kinds]
    groups = stack(mixers, [part] * layers, PRE_NORMS)
    return model(c, groups, family="granitemoehybrid", dialect="granitemoe")


_PATTERN = {"M": LINEAR, "E": "moe", "*": FULL, "-": "mlp"}


def read_nemotron_h(c: Fields) -> ModelSpec:
    """Nemotron-H and Nemotron 3: every layer is one part only: a state space, attention, a feed-forward or experts."""
    pattern = c.raw("hybrid_override_pattern")
    if c.raw("layers_block_type", "layer_types") is None and isinstance(pattern, str):
        if not pattern or any(letter not in _PATTERN for letter in pattern):
            raise BadInput(
                "config field '{field}' must be made of the letters {letters}",
                field="hybrid_override_pattern",
                letters=", ".join(_PATTERN),
            )
        kinds: list[str] | None = [_PATTERN[letter] for letter in pattern]
    else:
        stated = c.raw("layers_block_type", "layer_types")
        count = len(stated) if isinstance(stated, list) else 0
        kinds = _kinds(c, count, "layers_block_type", "layer_types", known=(LINEAR, FULL, "moe", "mlp"))
    if not kinds:
        raise BadInput(
            "config field '{field}' is missing; narrows will not guess it: take the complete config.json of the model",
            field="hybrid_override_pattern",
        )
    c.read |= {"num_hidden_layers"}  # the kinds say how many; transformers passes the number over as well
    hidden = c.size("hidden_size")
    bias, mlp_bias = c.flag("use_bias", False), c.flag("mlp_bias", False)
    made: dict[str, Layer] = {}
    nothing = NoMixer(hidden)
    if FULL in kinds:
        heads, kv = c.size("num_attention_heads", default=32), c.size("num_key_value_heads", default=8)
        c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
        mixer = Attention(hidden, heads, kv, c.size("head_dim", "attention_head_dim", default=128))
        made[FULL] = Layer(mixer, None, _NORM, hidden)
    if LINEAR in kinds:
        made[LINEAR] = Layer(_nemotron_mamba(c, hidden, bias), None, _NORM, hidden)
    if "mlp" in kinds:
        made["mlp"] = Layer(nothing, Dense(hidden, c.size("intermediate_size"), False, mlp_bias), _NORM, hidden)
    if "moe" in kinds:
        part = mixture(
            c,
            hidden,
            c.size("moe_intermediate_size", default=7688),
            number=8,
            top_k=2,
            names=("n_routed_experts",),
            shared=c.size("moe_shared_expert_intermediate_size", default=7688),
            shared_bias=mlp_bias,
            correction=True,
            gated=False,
            latent=c.maybe_size("moe_latent_size", default=None) or 0,
        )
        made["moe"] = Layer(nothing, part, _NORM, hidden)
    c.read |= {name for name in c.values if name.startswith(("mamba_", "ssm_", "mtp_", "moe_", "n_shared"))} | _UNREAD
    c.read |= {
        "n_routed_experts",
        "num_experts_per_tok",
        "sliding_window",
        "attention_bias",
        "num_nextn_predict_layers",
    }
    c.read |= {
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "attention_head_dim",
        "n_groups",
        "conv_kernel",
    }
    untied(c)
    return model(c, grouped([made[kind] for kind in kinds]), family="nemotron_h", dialect="nemotron_h")


def _nemotron_mamba(c: Fields, hidden: int, bias: bool) -> Mamba2:
    return Mamba2(
        hidden,
        c.size("mamba_num_heads", default=128),
        c.size("mamba_head_dim", default=64),
        c.size("ssm_state_size", default=128),
        c.size("mamba_n_groups", "n_groups", default=8),
        c.size("mamba_d_conv", "conv_kernel", default=4),
        conv_bias=c.flag("mamba_conv_bias" if c.has("mamba_conv_bias") else "use_conv_bias", True),
        in_bias=bias,
        out_bias=bias,
        state_format=state_format(c, "mamba_ssm_cache_dtype"),
    )
