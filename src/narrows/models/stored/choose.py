"""Which safetensors files of a folder are the checkpoint: pure rules on names, the same for a disk and for the hub.

As the engines choose: an index names its files; else `model.safetensors` is all; else numbered shards; else every file.
`consolidated*` repeats the same weights in another layout, and counts only where nothing else is there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from narrows.models.stored.safetensors import MOST_TENSORS
from narrows.text import BadInput, printable

MOST_FILES = 10_000
MOST_INDEX = 64 * 2**20
"""Bytes of an index; DeepSeek-V3's is 8.9 MB."""
_MOST_NAME = 255
"""Bytes of a file's name on any file system."""
SUFFIX = ".safetensors"
INDEX = ".safetensors.index.json"
_SHARD = re.compile(r"(.+)-(\d{1,6})-of-(\d{1,6})\.safetensors")
_BESIDE = ("consolidated", "adapter_", "optimizer", "training_")
"""How files begin that are no part of a model, or the same model again."""


class Chosen(msgspec.Struct, frozen=True):
    """The files of a checkpoint. named: tensor → file, where an index says so (else empty)."""

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    named: Mapping[str, str] = {}


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def is_weights(name: str) -> bool:
    """Whether a file is of interest: weights, or an index of them."""
    return name.endswith((SUFFIX, INDEX)) and len(name) <= _MOST_NAME


def are_numbered(files: Collection[str]) -> bool:
    """Whether files are told by their names alone to be a whole: one file, or shards with their number."""
    return len(files) == 1 or all(_SHARD.fullmatch(name) for name in files)


def choose(names: Collection[str], read_index: Callable[[str], bytes]) -> Chosen | None:
    """The checkpoint among the files of one folder; None where there is none. read_index: the bytes of an index.

    Raises BadInput for an index that is none, and for more files than any model has.
    """
    here = sorted(name for name in names if name.endswith(SUFFIX))
    indices = sorted(name for name in names if name.endswith(INDEX))
    own = [name for name in here if not name.startswith(_BESIDE)]
    own_indices = [name for name in indices if not name.startswith(_BESIDE)]
    if not own and not own_indices:
        own, own_indices = [name for name in here if name.startswith("consolidated")], indices
    files, missing, named = _of(own, own_indices, read_index)
    if not files:
        return None
    if len(files) > MOST_FILES:
        raise BadInput("the checkpoint has {count} files, more than any", count=len(files))
    return Chosen(tuple(files), tuple(missing), tuple(name for name in here if name not in set(files)), named)


def _of(
    here: list[str], indices: list[str], read_index: Callable[[str], bytes]
) -> tuple[list[str], list[str], Mapping[str, str]]:
    """(files, those of them that are not here, what the index names)."""
    whole = next((stem + SUFFIX for stem in ("model", "consolidated") if stem + SUFFIX in here), None)
    if indices:
        index = next((name for name in indices if name == "model" + INDEX), indices[0])
        named = weight_map(read_index(index), index)
        files = sorted(set(named.values()))
        missing = sorted(set(files) - set(here))
        # an index may have come along with a model since stored otherwise
        stale = missing and (whole or (here and missing == files))
        if files and not stale:
            return files, missing, named
    if whole:
        return [whole], [], {}
    shards = _shards(here)
    if shards is not None:
        return *shards, {}
    return here, [], {}


def _shards(here: list[str]) -> tuple[list[str], list[str]] | None:
    """Numbered shards and those that are missing; of several sets the one that lacks least, then the larger."""
    sets: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for name in here:
        found = _SHARD.fullmatch(name)
        if found is not None:
            sets[found[1], found[3]][int(found[2])] = name
    sets = {key: have for key, have in sets.items() if max(have) <= int(key[1]) <= MOST_FILES}
    if not sets:
        return None
    (stem, of), have = min(sets.items(), key=lambda one: (int(one[0][1]) - len(one[1]), -len(one[1]), one[0]))
    first = 0 if 0 in have else 1
    width = len(next(iter(have.values()))) - len(f"{stem}--of-{of}{SUFFIX}")
    every = [have.get(n) or f"{stem}-{n:0{width}}-of-{of}{SUFFIX}" for n in range(first, int(of) + first)]
    return every, [name for name in every if name not in here]


def weight_map(data: bytes, index: str) -> dict[str, str]:
    """Tensor → file, as an index says. Raises BadInput."""
    what: Any = None
    if len(data) <= MOST_INDEX:
        try:
            named = msgspec.json.decode(data, type=_Index).weight_map
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = error
        else:
            outside = [name for name in set(named.values()) if not _plain(name)]
            if len(named) <= MOST_TENSORS and not outside:
                return named
            if outside:
                raise BadInput(
                    "'{index}' names a file that cannot stand beside it: '{file}'; download the model again, or give "
                    "its config.json itself to go by that alone",
                    index=printable(index),
                    file=printable(outside[0])[:80],
                )
    if what is None:
        raise BadInput(
            "'{index}' is larger than any index; give the model's config.json itself to go by that alone",
            index=printable(index),
        )
    raise BadInput(
        "'{index}' is no index of safetensors files ({reason}); download it again, or give the model's config.json "
        "itself to go by that alone",
        index=printable(index),
        reason=str(what)[:100] or "nested too deeply",
    )


def _plain(name: str) -> bool:
    return name.endswith(SUFFIX) and len(name) <= _MOST_NAME and not re.search(r"[/\\\0]", name)
