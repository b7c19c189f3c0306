"""Records of loading times from public sources, and the scenario that each describes."""

from __future__ import annotations

import os
from functools import cache

import msgspec

from narrows.calibration import Coefficient
from narrows.hardware.storage import Storage, find_instance, find_storage
from narrows.loading.loaders import loader
from narrows.loading.path import Scenario
from narrows.text import Text


class LoadingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One measured stage: `seconds` for `bytes` of a checkpoint, as scripts/import_loading_records.py reads its source.

    stage: what took that long. storage, target, loader, instance: entries of the catalogues. bandwidth: of the storage,
    bytes/s, where the source states it. streams: readers per rank. layers: of the model. version: of
    the engine. device: an accelerator's id,
    where copies to it are unlike others'. eager, warm: of an engine's start: without graphs; with compiled code kept.
    gbps: GB/s as stated.
    """

    id: str
    source: str
    split: str
    stage: str = ""
    words: str = ""
    model: str = ""
    bytes: int | None = None
    seconds: float | None = None
    gbps: float | None = None
    storage: str | None = None
    target: str | None = None
    bandwidth: float | None = None
    instance: str | None = None
    loader: str | None = None
    streams: int | None = None
    ranks: int = 1
    layers: int | None = None
    version: str = ""
    device: str | None = None
    eager: bool = False
    warm: bool = False

    @property
    def origin(self) -> str:
        """The source whose rows belong together: a repository, one issue or pull request of it, or a page."""
        if not self.source.startswith("https://github.com/"):
            return self.source
        parts = self.source.removeprefix("https://github.com/").split("/")
        return "/".join(parts[:4] if len(parts) > 3 and parts[2] in ("issues", "pull") else parts[:2])


class LoadingCase(msgspec.Struct, frozen=True):
    """A record that can be predicted: bytes, storage and seconds are known."""

    record: LoadingRecord
    scenario: Scenario

    @property
    def seconds(self) -> float:
        """As measured."""
        return self.record.seconds or 0.0

    @property
    def storage(self) -> Storage:
        """Where the bytes came from."""
        return self.scenario.storage


class Copy(msgspec.Struct, frozen=True):
    """A copy from host to device that someone measured: bytes/s reached, of so many on paper (1: taken as they are)."""

    name: str
    reached: float
    paper: float
    source: str


def _bundled(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), "data", name), "rb") as file:
        return file.read()


@cache
def loading_facts() -> tuple[Coefficient, ...]:
    """What no record of a loading time tells: measured on a machine, cited, or assumed."""
    rows = (msgspec.json.decode(line) for line in _bundled("loading-facts.jsonl").splitlines())
    return tuple(msgspec.convert({"engine": "loading", **row}, Coefficient) for row in rows)


@cache
def copies() -> tuple[Copy, ...]:
    """All measured copies."""
    return tuple(msgspec.json.Decoder(Copy).decode_lines(_bundled("loading-links.jsonl")))


@cache
def loading_records() -> tuple[LoadingRecord, ...]:
    """All bundled records."""
    return tuple(msgspec.json.Decoder(LoadingRecord).decode_lines(_bundled("loading-records.jsonl")))


@cache
def loading_cases() -> tuple[tuple[LoadingCase, ...], tuple[tuple[LoadingRecord, Text], ...]]:
    """Records that move bytes and can be predicted, and the others that move bytes, with why they cannot."""
    found: list[LoadingCase] = []
    rest: list[tuple[LoadingRecord, Text]] = []
    for record in loading_records():
        if record.stage not in ("weights", "download"):
            continue
        if not record.seconds:
            rest.append((record, Text("no time is stated")))
        elif not record.storage:
            rest.append((record, Text("the storage is not named")))
        elif not record.bytes:
            rest.append((record, Text("the size of the checkpoint is not stated")))
        else:
            found.append(LoadingCase(record, _scenario(record)))
    return tuple(found), tuple(rest)


def _scenario(record: LoadingRecord) -> Scenario:
    assert record.storage is not None
    assert record.bytes is not None
    return Scenario(
        storage=find_storage(record.storage),
        loader=loader("safetensors" if record.stage == "download" else record.loader or "safetensors"),
        bytes=record.bytes,
        resident=record.bytes // record.ranks,
        ranks=record.ranks,
        bandwidth=record.bandwidth,
        instance=find_instance(record.instance) if record.instance else None,
        streams=record.streams,
        target=find_storage(record.target) if record.target else None,
    )
