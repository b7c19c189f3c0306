"""What transformers itself builds: parameters counted on the meta device, caches measured after a forward pass."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
import torch
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

LENGTHS = (3, 16, 33)
"""Sequence lengths at which caches are measured: below, at and beyond the windows that variants draw."""

LARGEST_RUN = 40_000_000
"""Parameters of the largest model that is run for real; larger ones are run on the meta device, where they can be."""

_TASKS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
)

_ENCODERS = "MODEL_FOR_MASKED_LM_MAPPING_NAMES"
"""Where there is nothing else."""

_TOP_K = (
    *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "moe_top_k", "top_k"),
    *("num_selected_experts", "router_top_k", "experts_per_token"),
)


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")


_TWO_SETS = ("ernie4_5_vl_moe", "muse_spark", "dots3_note")
"""Models with experts for words and others for pictures: what one token's pass touches depends on what it is."""


class Reference(msgspec.Struct, frozen=True):
    """One model as transformers builds it.

    total, embedding, active: unique parameters, those of the decoder's input embedding (None: the class does not tell
    it), those one token's pass touches (None: no experts). cache: elements by sequence length, constant state included
    (transformers keeps it in the cache).
    """

    total: int
    embedding: int | None
    active: int | None
    cache: dict[int, int]


def classes_of(model_type: str) -> list[type[PreTrainedModel]]:
    """The language-model classes that transformers has for a `model_type`, each once."""
    import transformers

    found: dict[str, Any] = {}
    for task in _TASKS:
        names = getattr(modeling_auto, task, {}).get(model_type, ())
        for name in (names,) if isinstance(names, str) else names:
            found.setdefault(name, getattr(transformers, name, None))
    if not any(found.values()) and model_type in getattr(modeling_auto, _ENCODERS):
        name = getattr(modeling_auto, _ENCODERS)[model_type]
        found = {name: getattr(transformers, name, None)}
    if not any(found.values()):
        found = _by_module(model_type)
    # a text class of a larger family has a configuration, and a model_type, of its own; a family without parts may
    # stand on the class of another
    whole = not CONFIG_MAPPING[model_type].sub_configs
    return [one for one in found.values() if one is not None and (whole or one.config_class.model_type == model_type)]


def _by_module(model_type: str) -> dict[str, Any]:
    """Language models beside the configuration that no task of transformers lists."""
    module = import_module(CONFIG_MAPPING[model_type].__module__.replace("configuration_", "modeling_"))
    return {
        name: one for name, one in vars(module).items() if name.endswith(("ForCausalLM", "ForConditionalGeneration"))
    }


def built(model: type[PreTrainedModel], config: PreTrainedConfig, device: str) -> PreTrainedModel:
    """The model with its weights tied; on the meta device it holds no memory."""
    with torch.device(device):
        made = model(config).eval()
    # kernels that the meta device knows for bfloat16 only
    return made.to(torch.bfloat16) if device == "meta" else made


def measure(model: type[PreTrainedModel], config: PreTrainedConfig) -> Reference:
    """Parameters always; caches where a forward pass of text is possible. Raises what transformers raises."""
    empty = built(model, config, "meta")
    # a tied weight is one parameter, and parameters() names each once
    total = sum(one.numel() for one in empty.parameters())
    table = _table(empty, config)
    runnable = built(model, config, "cpu") if total <= LARGEST_RUN else empty
    return Reference(total, table, _active(empty, config, total), dict(_caches(runnable, config)))


def _table(model: PreTrainedModel, config: PreTrainedConfig) -> int | None:
    """Parameters of the table that the decoder's tokens are looked up in."""
    try:
        own = model.get_decoder() if config.is_encoder_decoder else model
        weight = getattr(own.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):
        return None
    # Dia and MusicGen embed several channels, and have no one table
    return weight.numel() if isinstance(weight, torch.Tensor) else None


def _active(model: PreTrainedModel, config: PreTrainedConfig, total: int) -> int | None:
    """All parameters, less those of the experts that a token is not routed to."""
    routed = 0
    text = config.get_text_config(decoder=True)
    top_k = next((k for name in _TOP_K if isinstance(k := getattr(text, name, None), int)), None)
    if top_k is None or config.model_type in _TWO_SETS:
        return None
    counted: set[int] = set()
    for owner, module in model.named_modules():
        if re.search(r"(^|\.)experts$", owner) and isinstance(module, nn.ModuleList | nn.ModuleDict):
            held = sum(one.numel() for one in module.parameters())
            counted |= {id(one) for one in module.parameters()}
            routed += held - held * min(top_k, len(module)) // len(module)
    numbers = {n for name in _EXPERTS if isinstance(n := getattr(text, name, None), int)}
    # LongCat-Flash gives experts that do nothing weights of their own, beside those that do something
    numbers |= {n + idle for n in numbers if isinstance(idle := getattr(text, "zero_expert_num", None), int)}
    for name, one in model.named_parameters():
        stacked = (one.dim() == 3 and one.shape[1] > 1) or re.search(r"(^|\.)experts\.[^.]*$", name)
        if id(one) not in counted and stacked and one.shape[0] in numbers and "shared" not in name:
            routed += one.numel() - one.numel() * min(top_k, one.shape[0]) // one.shape[0]
    return total - routed if routed else None


def _caches(model: PreTrainedModel, config: PreTrainedConfig) -> Iterator[tuple[int, int]]:
    for length in LENGTHS:
        try:
            with torch.no_grad():
                answer = model(**_inputs(model, config, length), use_cache=True)
        except Exception:  # a class may need an image, a sound, or values that the meta device has not
            return
        kept = getattr(answer, "past_key_values", None)
        if kept is None:
            kept = getattr(answer, "cache_params", None)
        if kept is None:
            kept = getattr(answer, "state", None)
        if kept is None:
            return
        yield length, elements(kept)


def _inputs(model: PreTrainedModel, config: PreTrainedConfig, length: int) -> dict[str, torch.Tensor]:
    """Text for a decoder; for an encoder-decoder, an input of the same length as the output."""
    device = next(model.parameters()).device
    tokens = torch.full((1, length), 5, dtype=torch.long, device=device)
    if not config.is_encoder_decoder:
        return {"input_ids": tokens}
    return {"input_ids": tokens, "decoder_input_ids": tokens}


def elements(cache: Any) -> int:
    """Elements of all tensors that a cache lists."""
    return sum(math.prod(tensor.shape) for tensor in _tensors(cache, set()))


def _tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        # a counter is no part of what is cached; a key that is the value as well stands under both names
        if value.dim():
            yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one, seen)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one, seen)
    elif type(value).__module__.startswith("transformers"):
        yield from _tensors(vars(value), seen)
