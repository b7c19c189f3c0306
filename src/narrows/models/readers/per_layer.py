"""`per_layer_config`: overrides of fields for single layers, as transformers 5 writes them into any config.

Each layer is what the architecture's reader makes of the file with that layer's overrides in place. Architectures
whose own reader knows the field (Gemma 4, dots.3) are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import grouped
from narrows.models.readers.ignored import IGNORED
from narrows.models.spec import ModelSpec
from narrows.text import BadInput

FIELD = "per_layer_config"
_MOST_WORK = 200_000
"""Layers laid out in all: kinds of layers × layers."""


def with_overrides(reader: Callable[[Fields], ModelSpec], config: dict[str, Any], spec: ModelSpec) -> ModelSpec:
    """The model with `per_layer_config` of the config (or of its text_config) applied to `spec`, its reading without.

    Raises BadInput where an override is not of a layer, names a field the architecture does not have, or changes
    something outside the layers.
    """
    text = config.get("text_config")
    inner = isinstance(text, dict) and bool(text.get(FIELD))
    holder: dict[str, Any] = text if inner and isinstance(text, dict) else config
    path = f"text_config.{FIELD}" if inner else FIELD
    chosen = _by_layer(holder[FIELD], path, spec.layers)
    base = {name: value for name, value in holder.items() if name != FIELD}
    layers = spec.each_layer
    kinds: dict[str, list[int]] = {}
    for index, values in chosen.items():
        kinds.setdefault(repr(sorted(values.items())), []).append(index)
    if len(kinds) * spec.layers > _MOST_WORK:
        raise BadInput("config field '{field}' makes more kinds of layers than narrows lays out", field=path)
    for indices in kinds.values():
        values = chosen[indices[0]]
        changed = {**base, **values}
        fields = Fields({**config, "text_config": changed} if inner else changed)
        other = reader(fields)
        known = (fields.inner["text_config"].read if inner and "text_config" in fields.inner else fields.read) | IGNORED
        foreign = sorted(set(values) - known)
        if foreign:
            raise BadInput(
                "config field '{field}' does not belong to the layers of this model, so narrows does not read it",
                field=f"{path}.{indices[0]}.{foreign[0][:60]}",
            )
        outer = (other.layers, other.hidden, other.vocab, other.precision, other.dialect)
        if outer != (spec.layers, spec.hidden, spec.vocab, spec.precision, spec.dialect):
            raise BadInput(
                "config field '{field}' changes more than its layer; the file contradicts itself",
                field=f"{path}.{indices[0]}",
            )
        made = other.each_layer
        for index in indices:
            layers[index] = made[index]
    same: dict[Any, Any] = {}
    return msgspec.structs.replace(spec, groups=grouped(same.setdefault(layer, layer) for layer in layers))


def _by_layer(value: Any, path: str, layers: int) -> dict[int, dict[str, Any]]:
    """Overrides by the index of their layer, which files write as "00", "01" …"""
    if not isinstance(value, dict):
        raise BadInput("config field '{field}' must be an object of fields", field=path)
    found = {}
    for key, own in value.items():
        index = int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 8 else -1
        if not 0 <= index < layers or not isinstance(own, dict):
            raise BadInput(
                "config field '{field}' must be an object of overrides for one of the {count} layers",
                field=f"{path}.{str(key)[:20]}",
                count=layers,
            )
        if own.get("skip"):
            raise BadInput(
                "config field '{field}' leaves parts of a layer out, which narrows does not read yet",
                field=f"{path}.{key}.skip",
            )
        kept = {name: one for name, one in own.items() if name != "skip"}
        if kept:
            found[index] = kept
    return found
