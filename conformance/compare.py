"""One model of one family: drawn, built by transformers, read by narrows, and the two held against each other."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import msgspec
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel, logging

from conformance.adapter import cached_by_transformers
from conformance.flops import EXCEPTIONS, LENGTH, flops_of, stated
from conformance.reference import Reference, built, classes_of, measure
from conformance.starts import STARTS
from conformance.variants import Values, variant
from narrows.models import ModelSpec, read_config
from narrows.text import BadInput

logging.set_verbosity_error()
warnings.filterwarnings("ignore")


ATTEMPTS = 4
"""Draws until one can also be run, and its cache measured."""


class Case(msgspec.Struct, frozen=True):
    """What was compared.

    draw: 0 is the class's default configuration. differences: none if narrows is exact. exception: why transformers
    itself is not taken at its word. unbuilt: why there was nothing to compare with. lengths: sequence lengths at which
    a cache could be compared. row: the configuration and what transformers made of it.
    """

    family: str
    architecture: str
    draw: int
    differences: tuple[str, ...] = ()
    exception: str = ""
    unbuilt: str = ""
    lengths: tuple[int, ...] = ()
    row: dict[str, Any] = {}


def compare(family: str, seed: int, draw: int) -> list[Case]:
    """Cases of all language-model classes of a family, for one draw of hyper-parameters."""
    if family not in CONFIG_MAPPING:
        return [Case(family, "", draw, unbuilt="transformers has no configuration of this name")]
    classes = classes_of(family)
    if not classes:
        return [Case(family, "", draw, unbuilt="transformers has no language model of this name")]
    return [_one(family, model, random.Random(f"{family} {model.__name__} {seed} {draw}"), draw) for model in classes]


def _one(family: str, model: type[PreTrainedModel], dice: random.Random, draw: int) -> Case:
    name, base, start = model.__name__, CONFIG_MAPPING[family], STARTS.get(family, {})

    def works(values: Values) -> bool:
        try:
            built(model, base(**values), "meta")
        except Exception:  # whatever transformers raises of hyper-parameters it cannot build
            return False
        return True

    error = "no drawn hyper-parameters could be built"
    best: tuple[PreTrainedConfig, Reference] | None = None
    for _ in range(ATTEMPTS if draw else 1):
        values = variant(base, start, dice, works) if draw else start
        if values is None:
            continue
        try:
            config = base(**values)
            reference = measure(model, config)
        except Exception as raised:  # as above
            error = f"{type(raised).__name__}: {raised}"[:120]
            continue
        if best is None or reference.cache:
            best = config, reference
        if reference.cache:
            break
    return _against(family, model, draw, *best) if best else Case(family, name, draw, unbuilt=error)


def _against(
    family: str, model: type[PreTrainedModel], draw: int, config: PreTrainedConfig, reference: Reference
) -> Case:
    name = model.__name__
    written = json.loads(config.to_json_string(use_diff=False)) | {"architectures": [name]}
    row = {"config": written, **msgspec.to_builtins(reference)}
    exception = exception_of(family, written)
    compared = msgspec.structs.replace(reference, cache={}) if exception else reference
    try:
        spec = read_config(written, name=family)
        flops = None if family in EXCEPTIONS or not draw else flops_of(model, config)
        differences = (*_differences(spec, compared), *_other_flops(spec, flops))
    except BadInput as error:
        differences = (f"refused: {error}"[:300],)
    return Case(family, name, draw, differences, exception, lengths=tuple(compared.cache), row=row)


def exception_of(family: str, config: Values) -> str:
    """Why the cache of transformers is not what a server would keep: then only parameters are compared."""
    if family == "falcon" and config.get("new_decoder_architecture"):
        return "transformers repeats every group's keys and values before it caches them; engines cache them once"
    if family == "qwen3_vl_moe" and config["text_config"].get("sliding_window"):
        return "transformers cuts the cache at a window that its masks, and its own files, do not have"
    if family in ("qwen4_exp", "qwen4_exp_text"):
        return "transformers keeps the three coordinates of every position in its cache; engines compute them"
    if family == "minimax" and config.get("sliding_window"):
        return "transformers masks beyond the window, yet its cache keeps all tokens"
    return ""


def _differences(spec: ModelSpec, reference: Reference) -> list[str]:
    found = []
    for what, ours, theirs in (
        ("parameters", spec.unique_parameters(), reference.total),
        ("input embedding", embedding_parameters(spec), reference.embedding),
        ("active parameters", spec.active_parameters(), reference.active),
        *(
            (f"cache at {length}", cached_by_transformers(spec, length, length), n)
            for length, n in reference.cache.items()
        ),
    ):
        if theirs is not None and ours != theirs:
            found.append(f"{what}: {ours:,} is not {theirs:,}")
    return found


def _other_flops(spec: ModelSpec, counted: int | None) -> list[str]:
    """What differs in the FLOPs of a prompt."""
    ours = None if counted is None else stated(spec)
    return [] if ours == counted else [f"FLOPs of {LENGTH} tokens: {ours:,} is not {counted:,}"]


def embedding_parameters(spec: ModelSpec) -> int:
    """Parameters of the table that token ids are looked up in."""
    return sum(tensor.elements for _, tensor in spec.outer_tensors() if tensor.role == "embedding")
