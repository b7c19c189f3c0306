"""From what the user names — a file, a directory, `-`, a name of the catalogue or the hub — to a ModelSpec."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from narrows.models.catalogue import CatalogueEntry, catalogue_entry
from narrows.models.class_heads import as_its_class, plain
from narrows.models.config_file import config_at, config_of_stdin
from narrows.models.fields import Fields
from narrows.models.kinds import check_kinds
from narrows.models.module_schemes import as_written, called_quantized, unmet
from narrows.models.paths import gguf_of, looks_like_path, short, weights_of
from narrows.models.quantization import with_quantization
from narrows.models.readers import FAMILIES, reader_of
from narrows.models.readers.classes import family_of_class
from narrows.models.readers.ignored import IGNORED
from narrows.models.readers.per_layer import FIELD, with_overrides
from narrows.models.spec import ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text, printable


def load_model(
    source: str,
    *,
    assume: str | None = None,
    online: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> ModelSpec:
    """The model that `source` names: a config.json, a directory that holds one, `-` (stdin), a catalogue name, hub id.

    Of a directory the headers of its safetensors files are read as well, and of a hub id by range requests; a
    config.json stands for itself. progress: told (headers read, headers in all).
    The hub is asked for an `org/name` that is not in the catalogue, and for any `org/name@revision`; online=False keeps
    to the hub's local cache. assume: read an unknown architecture as this `model_type`, and say so. Raises BadInput
    with what to do.
    """
    if not source.strip():
        raise BadInput("no model given; name a config.json, a directory that holds one, or a model of 'narrows models'")
    if source == "-":
        return read_config(config_of_stdin(), name="stdin", assume=assume)
    if looks_like_path(source):
        return _from_path(source, assume, progress)
    asked = _hub_id(source)
    if asked is not None and asked[1] is not None:
        return _from_hub(*asked, assume, online, None, progress)
    try:
        entry = catalogue_entry(source)
    except BadInput as miss:
        return _not_in_catalogue(source, asked, assume, online, miss, progress)
    return catalogued(entry, assume=assume)


def _not_in_catalogue(
    source: str,
    asked: tuple[str, str | None] | None,
    assume: str | None,
    online: bool,
    miss: BadInput,
    progress: Callable[[int, int], None] | None,
) -> ModelSpec:
    """What the hub says; where it says nothing, a quantized model of the catalogue by what its name ends with."""
    from narrows.models.hub_refusals import Silent
    from narrows.models.quantized_names import quantized_entry

    if asked is not None:
        try:
            return _from_hub(*asked, assume, online, miss, progress)
        except BadInput as error:
            if error is not miss and not isinstance(error, Silent):
                raise
            found, silence = quantized_entry(source), error
    else:
        found, silence = quantized_entry(source), miss
    if found is None:
        raise silence
    entry, said = found
    spec = read_config(entry.config, name=source.strip(), source=entry.source, assume=assume, as_usual=False)
    return msgspec.structs.replace(spec, assumptions=(said, *spec.assumptions))


def catalogued(entry: CatalogueEntry, *, assume: str | None = None) -> ModelSpec:
    """The model of a catalogue entry, with what its published file holds beside the tensors."""
    spec = read_config(entry.config, name=entry.id, source=entry.source, assume=assume, as_usual=False)
    beside = tuple(
        Tower(one.name, ((one.name, 1, Tensor("beside", (one.elements,), "buffer")),), served=False, unique=False)
        for one in entry.stored_beside
    )
    return msgspec.structs.replace(spec, towers=spec.towers + beside) if beside else spec


def _hub_id(source: str) -> tuple[str, str | None] | None:
    if "/" not in source:
        return None
    from narrows.models.hub import hub_id

    return hub_id(source)


def _from_hub(
    repository: str,
    revision: str | None,
    assume: str | None,
    online: bool,
    miss: BadInput | None,
    progress: Callable[[int, int], None] | None,
) -> ModelSpec:
    """The model of a repository. miss: what the catalogue said, which holds where the hub must not be asked."""
    from narrows.models.hub import find

    found = find(repository, revision, online=online)
    if found is None:
        label = repository if revision is None else f"{repository}@{revision}"
        raise miss or BadInput(
            "'{name}' is not in the local cache, and the hub is not asked (HF_HUB_OFFLINE); unset that, or give the "
            "model's config.json (or a directory that holds it)",
            name=label,
        )
    config = config_at(found.path)
    notes = found.notes
    if found.unsure and config.get("quantization_config") is None:
        notes += (
            Text(
                "the local cache does not tell whether {files} belongs to the model; weights are taken as the "
                "config.json says",
                files=", ".join(found.unsure),
            ),
        )
    from narrows.models.stored.model import hub_model

    reading = {"name": repository, "source": found.source, "assume": assume}
    # a hub that was silent a moment ago is not asked again
    online = online and not found.notes
    spec = hub_model(config, repository, os.path.dirname(found.path), online, progress, reading)
    return msgspec.structs.replace(spec, assumptions=(*notes, *spec.assumptions)) if notes else spec


def _from_path(source: str, assume: str | None, progress: Callable[[int, int], None] | None) -> ModelSpec:
    path = os.path.expanduser(source)
    stored = gguf_of(path)
    if stored is not None and assume is not None:
        raise BadInput("--assume is of configs, and a GGUF file names its architecture itself; leave it out")
    if stored is not None:
        from narrows.models.stored.gguf_model import read_gguf

        return read_gguf(stored)
    weights = weights_of(path)
    if weights is not None:
        from narrows.models.stored.model import no_config

        path = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), "config.json")
        if not os.path.exists(path):
            raise no_config(weights)
    elif os.path.isdir(path):
        directory, path = path, os.path.join(path, "config.json")
        if not os.path.exists(path):
            raise BadInput(
                "directory '{path}' holds no config.json; give the directory as downloaded from the hub, or a "
                "config.json itself",
                path=short(directory),
            )
    config = config_at(path)
    stated = config.get("_name_or_path")
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    label = folder if os.path.basename(path) == "config.json" else os.path.basename(path)
    reading: dict[str, Any] = {
        "name": stated if isinstance(stated, str) and stated else label,
        "source": path,
        "assume": assume,
    }
    if weights is not None:
        from narrows.models.stored.model import read_local, stored_model

        found = read_local(weights, progress)
        if found is not None:
            return stored_model(config, found, **reading)
    return read_config(config, **reading)


def read_config(
    config: dict[str, Any], *, name: str, source: str = "", assume: str | None = None, as_usual: bool = True
) -> ModelSpec:
    """The ModelSpec of a decoded config. Unknown architectures are refused unless `assume` names a family.

    as_usual: what tools of a kind usually store besides is counted (False: it is known what the file holds).
    """
    odd = check_kinds(config)
    config = with_quantization(config)
    kind, assumptions = _family(config, assume)
    assumptions += odd
    reader = reader_of(kind)
    assert reader is not None
    fields = Fields(config)
    fields.read |= {"model_type", "architectures"}
    spec = reader(fields)
    spec = _overridden(config, fields, spec, reader)
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else kind
    if not _is_class_of(str(architecture), kind):
        assumptions.append(
            Text("class {name} is read as {family}, as its model_type says", name=str(architecture)[:60], family=kind)
        )
    spec, notes = as_its_class(spec, str(architecture), kind)
    assumptions += notes
    if spec.precision.assumed:
        assumptions.append(Text("the file names no data type; {dtype} is assumed", dtype=spec.precision.dtype.name))
    assumptions += spec.precision.notes
    assumptions += unmet(spec)
    assumptions += [*_defaults_taken(fields), *_passed_over(config, fields, kind, refuse=assume is None)]
    if as_usual:
        spec, written = as_written(spec)
        assumptions += [*written, *called_quantized(spec, name)]
    return msgspec.structs.replace(
        spec,
        name=printable(name)[:200],
        architecture=printable(str(architecture))[:80],
        source=printable(source),
        assumptions=(*spec.assumptions, *assumptions),
    )


def _overridden(
    config: dict[str, Any], fields: Fields, spec: ModelSpec, reader: Callable[[Fields], ModelSpec]
) -> ModelSpec:
    """The model with what its config says of single layers, where the reader has not read that itself."""
    text, within = config.get("text_config"), fields.inner.get("text_config", Fields({}))
    own = isinstance(text, dict) and text.get(FIELD) and FIELD not in within.read
    if own or (config.get(FIELD) and FIELD not in fields.read):
        spec = with_overrides(reader, config, spec)
        (within if own else fields).read.add(FIELD)
    return spec


def _defaults_taken(fields: Fields) -> Iterator[Text]:
    """That sizes were taken which the file leaves out."""
    named = sorted(set(fields.defaulted) & _TELLING)
    if named:
        yield Text("the architecture's default stands for what the file leaves out: {fields}", fields=", ".join(named))


def _passed_over(config: dict[str, Any], fields: Fields, family: str, refuse: bool) -> Iterator[Text]:
    """That fields were passed over which the family has not; refused (`refuse`) where they would change a size."""
    # a field that is off (false, null, empty) cannot change anything
    unknown = sorted(key for key in set(config) - fields.read - IGNORED if config[key])
    for part in ("text_config", "llm_config"):
        text = config.get(part)
        if part in fields.inner and isinstance(text, dict):
            known = fields.inner[part].read | IGNORED | {"model_type", "architectures"}
            unknown += sorted(f"{part}.{key}" for key in set(text) - known if text[key])
    foreign = [key for key in unknown if _STRUCTURAL.search(key)]
    if foreign and refuse:
        raise BadInput(
            "config field '{field}' does not belong to a {family} model, and would change its size; if it may be "
            "passed over, add --assume {family}",
            field=foreign[0][:60],
            family=family,
        )
    if unknown:
        shown = ", ".join(key[:40] for key in unknown[:8]) + (", …" if len(unknown) > 8 else "")
        yield Text("fields not understood, taken to change nothing: {fields}", fields=shown)


_STRUCTURAL = re.compile(r"expert|lora_rank|mamba|ssm_|linear_(num|key|value)|sliding_window|kv_heads|attn_layer")
"""Names of fields that no architecture has without being built differently."""


def _is_class_of(architecture: str, family: str) -> bool:
    """Whether a class name goes with a family: Qwen3MoeForCausalLM with qwen3_moe."""
    base = {
        "kimi_k2": "deepseekv3",
        "emu3_text_model": "emu3",
        "speech_to_text": "speech2text",
        "nemo_speechlm": "nemotron",
    }.get(family, family.removesuffix("_text"))
    return architecture == family or plain(architecture).startswith(plain(base))


_TELLING = {
    prefix + name
    for prefix in ("", "text_config.")
    for name in ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window")
} | {"text_config.sliding_window_pattern", "num_local_experts", "kv_lora_rank", "q_lora_rank"}
"""Defaults that change a size and that a reader of the answer would want to know of."""


def _family(config: dict[str, Any], assume: str | None) -> tuple[str, list[Text]]:
    stated = config.get("model_type")
    if assume is not None:
        if assume not in FAMILIES:
            raise BadInput(
                "'{family}' is not a family narrows reads; choose one of: {known}",
                family=assume[:60],
                known=_families(assume),
            )
        if assume == stated:
            return assume, []
        return assume, [
            Text(
                "read as {family}, because you said so; the file says {stated}", family=assume, stated=str(stated)[:60]
            )
        ]
    unnamed = not isinstance(stated, str) or not stated
    known: str | None = stated if not unnamed and stated in FAMILIES else None
    # a model_type of its own with code beside it (rwkv5 says RwkvForCausalLM) may be built differently
    if known is None and (unnamed or not config.get("auto_map")):
        known = family_of_class(config.get("architectures"))
    if known is not None and known != stated:
        named = str(config["architectures"][0])[:60]
        if unnamed:
            return known, [
                Text(
                    "the config names no 'model_type'; read as {family}, as its class {name} says",
                    family=known,
                    name=named,
                )
            ]
        return known, [
            Text(
                "model_type '{stated}' is not known; read as {family}, as the class {name} says",
                stated=printable(str(stated))[:60],
                family=known,
                name=named,
            )
        ]
    if not isinstance(stated, str) or not stated:
        raise BadInput(
            "the config names no 'model_type'; if you know the family, add --assume with one of: {known}",
            known=_families("llama"),
        )
    if stated not in FAMILIES:
        raise BadInput(
            "architecture '{stated}' is not read yet; if it is built like one of these, add --assume NAME: {known}",
            stated=stated[:60],
            known=_families(stated),
        )
    return stated, []


def _families(name: Any) -> str:
    """Families narrows reads, those whose names are likest first, as many as a line or two hold."""
    from difflib import SequenceMatcher

    wanted, found, room = str(name)[:60], "", 240
    for family in sorted(FAMILIES, key=lambda family: -SequenceMatcher(None, wanted, family).ratio()):
        if len(found) + len(family) > room:
            return found + ", …"
        found += f", {family}" if found else family
    return found
