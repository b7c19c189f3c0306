"""Pages of DeepSeek-V4 in vLLM: entries of all compressors in one group, windows and waiting tokens in groups beside.

Rules as vLLM 0.32 applies them on CUDA (vllm/v1/kv_cache_interface.py and vllm/models/deepseek_v4, Apache-2.0), held
against its own allocator. The cache has a layout of its own there, whatever precision is asked for: 584 bytes of
a key (448 in FP8, 64 in bfloat16, 8 of scales).
"""

from __future__ import annotations

from collections import Counter

from narrows.memory.pages import LayerPages, PageGroup
from narrows.models.mixers import CompressedAttention
from narrows.text import BadInput

_HEAD, _ROPE, _INDEX = 512, 64, 128
_KEY_BYTES = 584
_ALIGN = 576
"""Pages are padded to a multiple of it."""
_WINDOW_BLOCK, _ENTRY_BLOCK = 64, 256
_RATES = {4: 4, 128: 8}
"""Tokens per entry → tokens of a page of waiting tokens."""
ENTRIES = "entries"


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def compressed_pages(mixer: CompressedAttention, engine: str, is_cpu: bool) -> list[LayerPages]:
    """What one layer keeps on every rank: its window, entries, waiting tokens; the same of its indexer.

    Raises BadInput for other sizes or devices than those whose kernels are known.
    """
    known = mixer.head_dim == _HEAD and mixer.rope == _ROPE and mixer.rate in (0, *_RATES)
    if is_cpu or not known or (mixer.overlap and mixer.index_dim != _INDEX):
        raise BadInput(
            "how {engine} lays out compressed attention of these sizes on this device is not known; the published "
            "sizes (heads of 512, entries of 4 and 128 tokens) on CUDA are",
            engine=engine,
        )
    found = [_page("window", _KEY_BYTES, _WINDOW_BLOCK, _WINDOW_BLOCK, mixer.window)]
    if mixer.rate:
        found += _compressor(mixer, _KEY_BYTES, mixer.head_dim)
    if mixer.overlap:
        # 128 bytes of FP8 and a float32 scale
        found += _compressor(mixer, mixer.index_dim + 4, mixer.index_dim)
    return found


def _compressor(mixer: CompressedAttention, entry_bytes: int, width: int) -> list[LayerPages]:
    """Entries, and the tokens (key and gate in float32, of both windows where they overlap) that they are made of."""
    twice = 2 if mixer.overlap else 1
    block = _RATES[mixer.rate]
    return [
        _page(ENTRIES, entry_bytes, _ENTRY_BLOCK, _ENTRY_BLOCK // mixer.rate, None),
        _page(f"waiting {mixer.rate}", 2 * twice * width * 4, block, block, twice * mixer.rate),
    ]


def _page(group: str, each: int, block: int, kept: int, window: int | None) -> LayerPages:
    page = _padded(each * kept)
    return LayerPages(-(-page // block), window, block=block, page=page, group=group)


def compressed_groups(counts: Counter[LayerPages]) -> tuple[int, int, int, tuple[PageGroup, ...]]:
    """(tokens of a block, bytes of a page, bytes of a block of the pool, groups).

    The group of entries sets the block; every other kind is cut into as many groups as it takes to fit into it.
    """
    sizes: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    kinds: dict[str, LayerPages] = {}
    for kind, count in counts.items():
        sizes[kind.group] += count * kind.page
        layers[kind.group] += count
        kinds.setdefault(kind.group, kind)
    whole = sizes[ENTRIES] or max(sizes.values())
    groups = []
    for group, kind in kinds.items():
        number = -(-sizes[group] // whole)
        groups.append(PageGroup(number, -(-layers[group] // number), kind))
    return _ENTRY_BLOCK, max(kind.page for kind in counts), whole, tuple(groups)
