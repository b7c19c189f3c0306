"""A config and the headers of its files, read together: tensors really stored beat any formula."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from narrows.models.config import read_config
from narrows.models.spec import ModelSpec
from narrows.models.stored.attribute import BEYOND, Attribution, Slot, attribute, measured
from narrows.models.stored.choose import INDEX
from narrows.models.stored.directory import missing_text, read_directory, read_one
from narrows.models.stored.evidence import dtype_shown, scheme_shown
from narrows.models.stored.facts import Evident
from narrows.models.stored.inventory import Inventory, Progress
from narrows.models.tensors import Stored, StoredComponent
from narrows.precision import UNQUANTIZED
from narrows.text import BadInput, Text, printable
from narrows.units import decimal

_QUANTIZATION = "quantization_config"


def read_local(path: str, progress: Progress | None = None) -> Inventory | None:
    """The checkpoint in a directory, or of which a file (weights or an index) is a part. None: no safetensors there."""
    if os.path.isdir(path):
        return read_directory(path, progress)
    folder, name = os.path.split(path)
    found = read_directory(folder or ".", progress)
    if found is None or name.endswith(INDEX) or name in found.files:
        return found
    return read_one(path)


def no_config(path: str) -> BadInput:
    """The refusal of weights without a config."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    if os.path.exists(os.path.join(folder, "adapter_config.json")):
        return BadInput(
            "'{path}' holds an adapter (such as LoRA) and no model: give the model that its adapter_config.json names "
            "as 'base_model_name_or_path'",
            path=printable(folder)[-100:],
        )
    return BadInput(
        "'{path}' holds weights and no config.json: the tensors alone do not tell the structure; put the model's "
        "config.json beside them (it is on the model's page)",
        path=printable(folder)[-100:],
    )


def hub_model(
    config: dict[str, Any],
    repository: str,
    snapshot: str,
    online: bool,
    progress: Progress | None,
    reading: dict[str, Any],
) -> ModelSpec:
    """The ModelSpec of a repository at the commit whose cached folder is `snapshot`, by the headers of its files.

    What a config alone cannot be is refused before the hub is asked for more. Raises BadInput.
    """
    from narrows.models.stored.remote import read_hub

    try:
        spec = read_config(config, **reading)
    except BadInput:
        if _without_quantization(config) is None:
            raise
        spec = None
    found, unread = read_hub(repository, os.path.basename(snapshot), snapshot, online, progress)
    if found is not None:
        return stored_model(config, found, **reading)
    spec = spec or read_config(config, **reading)
    return spec if unread is None else msgspec.structs.replace(spec, assumptions=(*spec.assumptions, unread))


def stored_model(config: dict[str, Any], found: Inventory, **reading: Any) -> ModelSpec:
    """The ModelSpec of a config, with what the headers tell. reading: as for `read_config`. Raises BadInput."""
    if found.missing:
        spec = read_config(config, **reading)
        return msgspec.structs.replace(spec, assumptions=(*spec.assumptions, missing_text(found)))
    notes: list[Text] = []
    config = _with_dtype(config, found, notes)
    spec = _quantized(config, found, notes, reading)
    laid = attribute(spec, found.tensors, quantized=spec.precision.scheme is not UNQUANTIZED)
    return msgspec.structs.replace(
        spec,
        measured=measured(spec, laid.slots.values()),
        stored=_facts(spec, found, laid),
        assumptions=(*spec.assumptions, *notes, *_differences(spec, laid), *_about_files(found)),
    )


def _with_dtype(config: dict[str, Any], found: Inventory, notes: list[Text]) -> dict[str, Any]:
    """The config with the data type of the files where it names none."""
    text = config.get("text_config")
    for one in (config, text if isinstance(text, dict) else {}):
        if any(one.get(name) not in (None, "auto") for name in ("dtype", "torch_dtype")):
            return config
    shown = dtype_shown(found.tensors)
    if shown is None:
        return config
    notes.append(Text("the config names no data type; most of what its files store is {dtype}", dtype=shown))
    return {**{key: value for key, value in config.items() if key != "dtype"}, "torch_dtype": shown}


def _quantized(config: dict[str, Any], found: Inventory, notes: list[Text], reading: dict[str, Any]) -> ModelSpec:
    """The model, with the quantization that the headers show where the config's is absent or not read."""
    try:
        spec = read_config(config, **reading)
    except BadInput:
        bare = _without_quantization(config)
        shown = scheme_shown(found.tensors) if bare is not None else ""
        if bare is None or not shown:
            raise
        spec = read_config(bare, **reading)
        notes.append(
            Text(
                "the config's quantization is not read; the headers show {scheme}, and weights are taken as stored",
                scheme=shown,
            )
        )
    else:
        shown = scheme_shown(found.tensors) if spec.precision.scheme is UNQUANTIZED else ""
        if shown:
            notes.append(
                Text(
                    "the config names no quantization; the headers show {scheme}, and weights are taken as stored",
                    scheme=shown,
                )
            )
    if not shown:
        return spec
    return msgspec.structs.replace(spec, precision=msgspec.structs.replace(spec.precision, scheme=Evident(shown)))


def _without_quantization(config: dict[str, Any]) -> dict[str, Any] | None:
    """The config without its quantization; None where there is none, or where it speaks of the KV cache as well."""
    parts = [config, *(value for value in config.values() if isinstance(value, dict))]
    stated = [one[_QUANTIZATION] for one in parts if one.get(_QUANTIZATION) is not None]
    if not stated or any(
        not isinstance(one, dict) or one.get("kv_cache_scheme") or one.get("kv_cache_quant_algo") for one in stated
    ):
        return None

    def bare(one: dict[str, Any]) -> dict[str, Any]:
        return {
            key: bare(value) if isinstance(value, dict) else value for key, value in one.items() if key != _QUANTIZATION
        }

    return bare(config)


def _facts(spec: ModelSpec, found: Inventory, laid: Attribution) -> Stored:
    order = list(dict.fromkeys([*(row.component for row in spec.tensor_table())]))

    def place(one: StoredComponent) -> tuple[int, str]:
        return (order.index(one.name) if one.name in order else len(order), one.name)

    return Stored(
        kind=found.kind,
        files=len(found.files),
        header_bytes=found.header_bytes,
        tensors=len(found.tensors),
        bytes=found.bytes,
        components=tuple(sorted(laid.components, key=place)),
        unattributed_tensors=laid.unattributed[0],
        unattributed_bytes=laid.unattributed[1],
    )


def _differences(spec: ModelSpec, laid: Attribution) -> Iterator[Text]:
    """What the files hold otherwise than the config says, a sentence each."""
    components = {one.name: one for one in laid.components}
    again = components.get("head, stored again")
    if again is not None:
        yield Text(
            "the files store the head a second time ({size}), and engines keep it once, as the embedding",
            size=decimal(again.bytes),
        )
    ahead = components.get("MTP layer")
    if ahead is not None:
        yield Text(
            "{count} tensors ({size}) are of multi-token prediction layers, which engines do not load by themselves",
            count=ahead.tensors,
            size=decimal(ahead.bytes),
        )
    beyond = components.get(BEYOND)
    if beyond is not None:
        yield Text(
            "{count} tensors ({size}) are of layers beyond the {layers} that the config names; they are not counted "
            "as loaded",
            count=beyond.tensors,
            size=decimal(beyond.bytes),
            layers=spec.layers,
        )
    for form, size in sorted(laid.converted.items()):
        yield Text(
            "{size} are stored as {format} although the config says {dtype}; engines convert them while they load",
            size=decimal(size),
            format=form,
            dtype=spec.precision.dtype.name,
        )
    if laid.unattributed[0]:
        yield Text(
            "{count} tensors ({size}) have names that belong to no known part; they are not counted as loaded",
            count=laid.unattributed[0],
            size=decimal(laid.unattributed[1]),
        )
    yield from _slots(laid.slots.values())


def _slots(slots: Iterable[Slot]) -> Iterator[Text]:
    """Places of the table that no file fills, and components of another size than the config implies."""
    absent, names = 0, []
    sizes: dict[str, list[int]] = {}
    for slot in slots:
        if not slot.served or slot.tensor.use == "buffer":
            continue
        if not slot.touched:
            absent += slot.count
            names.append(slot.name.replace("{}", "*"))
        elif not slot.other:
            both = sizes.setdefault(slot.component, [0, 0])
            both[0] += slot.plain
            both[1] += slot.elements
    for component, (stored, implied) in sizes.items():
        if stored != implied:
            yield Text(
                "{component}: the files hold {stored} parameters, the config implies {implied}; what is stored counts",
                component=component,
                stored=stored,
                implied=implied,
            )
    if absent:
        yield Text(
            "{count} tensors that the config implies are in no file ({names}); their bytes are computed",
            count=absent,
            names=", ".join(names[:3]) + (", …" if len(names) > 3 else ""),
        )


def _about_files(found: Inventory) -> Iterator[Text]:
    if found.unstored:
        yield Text("{count} tensors that the index names are in no file", count=found.unstored)
    if found.unnamed:
        yield Text(
            "{count} tensors of the files are not named by the index, and counted all the same", count=found.unnamed
        )
    if found.twice:
        yield Text("{count} tensors stand in several files, and count once", count=found.twice)
    if found.left_out:
        shown = ", ".join(found.left_out[:4]) + (", …" if len(found.left_out) > 4 else "")
        yield Text("files beside the checkpoint are not counted: {names}", names=shown)
