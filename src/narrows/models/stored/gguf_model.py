"""A ModelSpec from a GGUF file: the shape from its metadata, every byte from its table of tensors."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from narrows.models.paths import short
from narrows.models.spec import ModelSpec
from narrows.models.stored.gguf import MOST_STRINGS, MOST_TENSORS, GgufHeader, GgufTensor, read_header
from narrows.models.stored.gguf_config import config_of
from narrows.models.stored.gguf_stored import StoredTensor, stored_as
from narrows.precision.ggml import file_type_name
from narrows.text import BadInput, Text, printable

_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE)
_MOST_PARTS = 2000
"""Some publish one tensor per part: 1,097 parts of one model were seen."""
_STRINGS_OF_LATER_PARTS = 2**10
"""The tokenizer stands in the first part."""


def read_gguf(path: str) -> ModelSpec:
    """The model of a GGUF file, and of all its parts if it is one of several. Raises BadInput."""
    headers = _parts(path)
    metadata = headers[0].metadata
    if metadata.get("general.type") in ("adapter", "imatrix", "mmproj"):
        raise BadInput(
            "'{path}' holds no model but a companion of one ({kind}); give the model's own file",
            path=short(path),
            kind=str(metadata["general.type"]),
        )
    tensors: dict[str, GgufTensor] = {}
    for header in headers:
        for tensor in header.tensors:
            if tensor.name in tensors:
                raise BadInput(
                    "'{path}' repeats the tensor '{name}' of another part; download the parts again",
                    path=short(header.path),
                    name=tensor.name[:60],
                )
            tensors[tensor.name] = tensor
    from narrows.models.config import read_config

    config = config_of(path, metadata, tensors)
    spec = read_config(config, name=_name(metadata, path), source=path)
    stored = (StoredTensor(one.name, one.type, one.elements) for one in tensors.values())
    kind = file_type_name(metadata.get("general.file_type"))
    notes = () if kind else (Text("the file does not name its file type; its tensors say how they are stored"),)
    made = stored_as(spec, stored, kind or "GGUF")
    return msgspec.structs.replace(
        made,
        architecture=printable(str(metadata["general.architecture"]))[:80],
        assumptions=(*made.assumptions, *notes),
    )


def _name(metadata: dict[str, Any], path: str) -> str:
    stated = metadata.get("general.name")
    found = _PART.fullmatch(os.path.basename(path))
    file = found[1] if found else os.path.basename(path).removesuffix(".gguf")
    return stated if isinstance(stated, str) and stated.strip() else file


def _parts(path: str) -> list[GgufHeader]:
    """The headers of all parts, the first one first."""
    given = read_header(path)
    count = given.metadata.get("split.count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_PARTS:
        raise BadInput("'{path}' says that it is one of {count} parts", path=short(path), count=str(count)[:40])
    folder, name = os.path.split(path)
    found = _PART.fullmatch(name)
    if count <= 1:
        return [given]
    if found is None or int(found[3]) != count:
        raise BadInput(
            "'{path}' is one of {count} parts, and its name does not say which; give parts their names as downloaded, "
            "such as {example}",
            path=short(path),
            count=count,
            example=f"model-00001-of-{count:05d}.gguf",
        )
    names = [f"{found[1]}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1)]
    missing = [one for one in names if not os.path.exists(os.path.join(folder, one))]
    if missing:
        raise BadInput(
            "'{path}' is one of {count} parts, and of these there are missing: {missing}; download them beside it",
            path=short(path),
            count=count,
            missing=", ".join(missing[:3]) + (", …" if len(missing) > 3 else ""),
        )
    headers: list[GgufHeader] = []
    total = 0
    for number, one in enumerate(names):
        strings = MOST_STRINGS if number == 0 else _STRINGS_OF_LATER_PARTS
        header = given if one == name else read_header(os.path.join(folder, one), most_strings=strings)
        headers.append(header)
        total += len(header.tensors)
        if total > MOST_TENSORS:
            raise BadInput("'{path}' and its parts have more tensors than any model", path=short(path))
        if header.metadata.get("split.no") != number or header.metadata.get("split.count") != count:
            raise BadInput(
                "'{path}' is not part {number} of {count}, as its name says; download it again",
                path=short(header.path),
                number=number + 1,
                count=count,
            )
    stated = headers[0].metadata.get("split.tensors.count")
    if stated is not None and stated != total:
        raise BadInput(
            "'{path}' and its parts have {total} tensors, and should have {stated}; download them again",
            path=short(path),
            total=total,
            stated=str(stated)[:20],
        )
    return headers


def gguf_in(folder: str) -> str | None:
    """The GGUF model in a directory, where no other weights lie; None if there is none.

    Raises BadInput where there are several. Companions (mmproj, imatrix) do not count, and of parts the first stands
    for all.
    """
    names = sorted(os.listdir(folder))
    if any(name.endswith((".safetensors", ".bin", ".pth")) for name in names):
        return None
    found = [
        name
        for name in names
        if name.lower().endswith(".gguf")
        and not name.lower().startswith(("mmproj", "imatrix"))
        and not os.path.isdir(os.path.join(folder, name))
    ]
    if not found:
        return None
    parts = [_PART.fullmatch(name) for name in found]
    models = [name for name, part in zip(found, parts, strict=True) if part is None or int(part[2]) == 1]
    models = models or found[:1]
    if len(models) > 1:
        raise BadInput(
            "directory '{path}' holds several GGUF models: {names}; give one of these files",
            path=short(folder),
            names=", ".join(models[:6]) + (", …" if len(models) > 6 else ""),
        )
    return os.path.join(folder, models[0])
