"""What llama.cpp's converter writes of a model: the metadata of its GGUF file, from a ModelSpec."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import msgspec

from narrows.models import ModelSpec
from narrows.models.feedforward import Dense, MixtureOfExperts
from narrows.models.mixers import (
    Attention,
    GatedDeltaNet,
    KimiDelta,
    LatentAttention,
    Mamba,
    Mamba2,
    Parallel,
    ShortConvolution,
)
from narrows.models.stored.gguf_layout import layout
from narrows.models.stored.gguf_stored import _mixed_model
from narrows.precision.ggml import file_types
from narrows.precision.ggml_mix import mixed_types

from .gguf_files import STRING, U32, Writer, gguf, size_of

W = Writer()

ARCHITECTURE = {
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "phi": "phi2",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "cohere": "command-r",
    "olmo3": "olmo2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "glm_moe_dsa": "glm-dsa",
    "glm": "chatglm",
    "glm4_moe": "glm4moe",
    "granitemoeshared": "granitemoe",
    "granitemoehybrid": "granitehybrid",
    "falcon_h1": "falcon-h1",
    "kimi_linear": "kimi-linear",
    "lfm2_moe": "lfm2moe",
    "exaone_moe": "exaone-moe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "ernie4_5_moe": "ernie4_5-moe",
    "minimax_m2": "minimax-m2",
    "gpt_oss": "gpt-oss",
}
"""Families whose GGUF files have another word for them."""


def metadata_of(spec: ModelSpec) -> dict[str, Any]:
    """The keys of the architecture, as the converter writes them."""
    by_index = {i: layer for layer, indices in spec.kinds for i in indices}
    layers = [by_index[i] for i in range(spec.layers)]
    found: dict[str, Any] = {
        "block_count": spec.layers,
        "embedding_length": spec.hidden,
        "context_length": spec.max_length or spec.positions or 2048,
    }
    kv: list[int] = []
    windows: list[bool] = []
    for layer in layers:
        mixer = layer.mixer
        attention = mixer.attention if isinstance(mixer, Parallel) else mixer
        kv.append(getattr(attention, "kv_heads", 0))
        windows.append(getattr(attention, "window", None) is not None)
        found |= _mixer(mixer)
        found |= _feed_forward(layer.feed_forward)
        if getattr(attention, "window", None):
            found["attention.sliding_window"] = attention.window  # type: ignore[union-attr]
    if any(kv):
        found["attention.head_count_kv"] = kv if len(set(kv)) > 1 else kv[0]
    if len(set(windows)) > 1:
        found["attention.sliding_window_pattern"] = windows
    if spec.family == "gemma4":
        found |= _gemma4(spec, layers)
    sparse = [isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers]
    if any(sparse):
        found["leading_dense_block_count"] = sparse.index(True)
    return found


def _gemma4(spec: ModelSpec, layers: list[Any]) -> dict[str, Any]:
    """Heads of two widths, borrowed keys, inputs by layer, wider feed-forward parts."""
    widths = {layer.mixer.window is None: layer.mixer.head_dim for layer in layers}
    return {
        "attention.key_length": widths[True],
        "attention.value_length": widths[True],
        "attention.key_length_swa": widths.get(False),
        "attention.shared_kv_layers": sum(layer.mixer.borrowed for layer in layers),
        "attention.sliding_window_pattern": [layer.mixer.window is not None for layer in layers],
        "embedding_length_per_layer_input": spec.per_layer[1],
        "feed_forward_length": [
            getattr(layer.feed_forward, "shared", 0) or layer.feed_forward.intermediate for layer in layers
        ],
    }


def _mixer(mixer: Any) -> dict[str, Any]:
    if isinstance(mixer, Parallel):
        return _mixer(mixer.attention) | _mixer(mixer.recurrent)
    if isinstance(mixer, Attention):
        width = mixer.head_dim
        return {"attention.head_count": mixer.heads, "attention.key_length": width, "attention.value_length": width}
    if isinstance(mixer, LatentAttention):
        found = {
            "attention.head_count": mixer.heads,
            "attention.head_count_kv": 1,
            "attention.q_lora_rank": mixer.q_rank,
            "attention.kv_lora_rank": mixer.kv_rank,
            "attention.key_length": mixer.kv_rank + mixer.rope,
            "attention.value_length": mixer.kv_rank,
            "attention.key_length_mla": mixer.nope + mixer.rope,
            "attention.value_length_mla": mixer.value,
            "rope.dimension_count": mixer.rope,
        }
        if mixer.index_heads:
            found |= {
                "attention.indexer.head_count": mixer.index_heads,
                "attention.indexer.key_length": mixer.index_dim,
                "attention.indexer.top_k": mixer.index_top_k,
            }
        return found
    if isinstance(mixer, Mamba):
        return {
            "ssm.inner_size": mixer.inner,
            "ssm.state_size": mixer.state_size,
            "ssm.conv_kernel": mixer.conv,
            "ssm.time_step_rank": mixer.dt_rank,
        }
    if isinstance(mixer, Mamba2):
        return {
            "ssm.inner_size": mixer.heads * mixer.head_dim,
            "ssm.state_size": mixer.state_size,
            "ssm.conv_kernel": mixer.conv,
            "ssm.time_step_rank": mixer.heads,
            "ssm.group_count": mixer.groups,
        }
    if isinstance(mixer, GatedDeltaNet):
        return {
            "ssm.inner_size": mixer.value_heads * mixer.value_dim,
            "ssm.state_size": mixer.key_dim,
            "ssm.conv_kernel": mixer.conv,
            "ssm.time_step_rank": mixer.value_heads,
            "ssm.group_count": mixer.key_heads,
        }
    if isinstance(mixer, KimiDelta):
        return {"attention.head_count": mixer.heads, "kda.head_dim": mixer.head_dim, "ssm.conv_kernel": mixer.conv}
    if isinstance(mixer, ShortConvolution):
        return {"shortconv.l_cache": mixer.conv}
    return {}


def _feed_forward(part: Any) -> dict[str, Any]:
    if isinstance(part, Dense):
        return {"feed_forward_length": part.intermediate}
    if isinstance(part, MixtureOfExperts):
        found = {
            "expert_count": part.experts,
            "expert_used_count": part.top_k,
            "expert_feed_forward_length": part.intermediate,
        }
        if part.shared:
            found["expert_shared_feed_forward_length"] = part.shared
            found["expert_shared_count"] = max(1, part.shared // part.intermediate)
        if part.latent:
            found["moe_latent_size"] = part.latent
        return found
    return {}


def pairs_of(spec: ModelSpec, kind: str = "F16", /, **changes: Any) -> list[bytes]:
    """The metadata of a file, as bytes."""
    architecture = ARCHITECTURE.get(spec.family, spec.family)
    pairs = [
        W.pair("general.architecture", STRING, architecture),
        W.pair("general.file_type", U32, file_types()[kind].number),
        W.pair("general.name", STRING, spec.name or "a model"),
    ]
    for key, value in {**metadata_of(spec), **changes}.items():
        if isinstance(value, list):
            pairs.append(W.items(f"{architecture}.{key}", 7 if isinstance(value[0], bool) else 5, value))
        elif value is not None:
            pairs.append(W.pair(f"{architecture}.{key}", U32, value))
    return pairs


def tensors_of(spec: ModelSpec, kind: str = "F16") -> list[tuple[str, tuple[int, ...], int]]:
    """The tensors of a file: (name, dimensions, type number)."""
    rows = layout(msgspec.structs.replace(spec, towers=()))
    types = mixed_types(file_types()[kind], _mixed_model(spec), rows)
    return [(name, dims, types[name].id) for name, dims in rows]


def write_model(path: Path, spec: ModelSpec, kind: str = "F16", /, **changes: Any) -> int:
    """A whole file of a model, its weights a hole; the bytes of its tensors."""
    tensors = tensors_of(spec, kind)
    header = gguf(pairs_of(spec, kind, **changes), tensors, weights=False)
    sizes = [size_of(dims, number) for _, dims, number in tensors]
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(-(-size // 32) * 32 for size in sizes))
    assert all(prod(dims) for _, dims, _ in tensors)
    return sum(sizes)
