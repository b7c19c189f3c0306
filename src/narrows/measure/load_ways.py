"""The loaders that `measure load` can run, as facts for the laws of loading: how each reads, what it does in memory."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import msgspec

from narrows.loading.loaders import Loader
from narrows.text import BadInput, Text


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One loader. facts: for the laws (`narrows.loading`).

    by: the limits of this machine that one pass over host memory goes by, one after the other: `cached` (page cache to
    a buffer), `mapping` (page faults of what is in the page cache), `memcpy`. modules: what must be installed. kept:
    host memory held per byte beside the page cache. device: can copy to a device. cached: a page cache helps it.
    window: bytes that one page fault brings; None: as the kernel reads ahead. http: reads addresses, not files. asked:
    run only when asked for. formats: None: every. limit: measures a limit itself: its prediction proves nothing.
    """

    id: str
    name: Text
    facts: Loader
    by: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    kept: float = 0.0
    device: bool = False
    cached: bool = True
    window: int | None = None
    http: bool = False
    asked: bool = False
    limit: bool = False
    formats: tuple[str, ...] | None = None
    threads: int | None = None

    @property
    def installed(self) -> bool:
        """Whether what it needs is there."""
        return all(find_spec(module) is not None for module in self.modules)


def _facts(
    id: str,
    access: Literal["mmap", "read", "direct"],
    streams: int,
    fresh: float = 0.0,
    copies: int = 0,
    pinned: bool = False,
) -> Loader:
    return Loader(
        id=id, name=id, engines=(), access=access, streams=streams, part="all", pipelined=True, pinned=pinned,
        fresh=fresh, copies=copies, source="",
    )  # fmt: skip


_SAFE = ("safetensors",)
WAYS: tuple[Way, ...] = (
    Way(
        id="direct",
        name=Text("our reader: 8 reads of 4 MiB past the page cache into a ring of reused buffers"),
        facts=_facts("direct", "direct", 8),
        device=True,
        cached=False,
        limit=True,
    ),
    Way(
        id="buffered",
        name=Text("read through the page cache into one reused buffer"),
        facts=_facts("buffered", "read", 1, copies=1),
        by=("cached",),
        limit=True,
    ),
    Way(
        id="mmap",
        name=Text("mapped, every page touched in order"),
        facts=_facts("mmap", "mmap", 1, copies=1),
        by=("mapping",),
    ),
    Way(
        id="populate",
        name=Text("mapped and filled by the kernel (MADV_POPULATE_READ), two threads"),
        facts=_facts("populate", "mmap", 2, copies=1),
        by=("mapping",),
    ),
    Way(
        id="read",
        name=Text("read whole into new memory"),
        facts=_facts("read", "read", 1, fresh=1.0, copies=1),
        by=("cached",),
        kept=1.0,
    ),
    Way(
        id="safetensors",
        name=Text("safetensors with torch, mapped"),
        facts=_facts("safetensors", "mmap", 1, copies=1),
        by=("mapping",),
        modules=("safetensors", "torch"),
        device=True,
        formats=_SAFE,
    ),
    Way(
        id="safetensors-numpy",
        name=Text("safetensors with numpy, copied out of the mapping"),
        facts=_facts("safetensors-numpy", "mmap", 1, fresh=1.0, copies=1),
        by=("mapping", "memcpy"),
        modules=("safetensors", "numpy"),
        kept=0.2,
        formats=_SAFE,
    ),
    Way(
        id="fastsafetensors",
        name=Text("fastsafetensors, without GPUDirect"),
        facts=_facts("fastsafetensors", "read", 16, fresh=1.0, copies=1, pinned=True),
        by=("cached",),
        modules=("fastsafetensors", "torch"),
        kept=1.0,
        device=True,
        formats=_SAFE,
    ),
    Way(
        id="runai",
        name=Text("Run:ai Model Streamer"),
        facts=_facts("runai", "read", 16, fresh=1.0, copies=1, pinned=True),
        by=("cached",),
        modules=("runai_model_streamer", "torch"),
        kept=1.0,
        device=True,
        formats=_SAFE,
    ),
    Way(
        id="mmap-random",
        name=Text("mapped without read-ahead (MADV_RANDOM), its first 32 MiB"),
        facts=_facts("mmap-random", "mmap", 1, copies=1),
        by=("mapping",),
        window=4096,
        asked=True,
    ),
    Way(
        id="http",
        name=Text("range requests over HTTP, 8 connections"),
        facts=_facts("http", "direct", 8),
        cached=False,
        device=True,
        http=True,
    ),
    Way(
        id="http-1",
        name=Text("one request after the other over HTTP"),
        facts=_facts("http-1", "direct", 1),
        cached=False,
        device=True,
        http=True,
        threads=1,
    ),
)
"""All, in the order in which they are shown."""


def ways(asked: tuple[str, ...], http: bool, format: str) -> list[Way]:
    """The loaders to run: those asked for, else all that are installed and read this. Raises BadInput."""
    usable = [one for one in WAYS if one.http == http and (one.formats is None or format in one.formats)]
    if not asked:
        return [one for one in usable if one.installed and not one.asked]
    found = []
    for id in dict.fromkeys(asked):
        one = next((one for one in usable if one.id == id.strip().lower()), None)
        if one is None:
            raise BadInput(
                "--loader is '{name}', which does not load this here; use one of: {known}",
                name=id[:40],
                known=", ".join(one.id for one in usable),
            )
        if not one.installed:
            raise BadInput(
                "loader {name} needs {modules}: pip install 'narrows[loaders,torch]'",
                name=one.id,
                modules=", ".join(one.modules),
            )
        found.append(one)
    return found
