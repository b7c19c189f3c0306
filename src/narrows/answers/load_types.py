"""The answer of `load` and its parts."""

from __future__ import annotations

import msgspec

from narrows.answers.base import Answer
from narrows.answers.model import ModelFacts
from narrows.quantity import Quantity
from narrows.text import Text


class LoadStage(msgspec.Struct, frozen=True):
    """One stage. time: seconds alone; bytes: moved on the node, and bandwidth in bytes/s, where it moves any.

    limit: what bounds it: `readers` (each waits for its answer), `storage`, `machine` (its network or volume limit),
    `processor`, `link`, `loader`, `memory`; None where it moves nothing. overlaps: works while others do. begins,
    ends: seconds after the process started, as this loader does it; of a stage that overlaps, the last of its bytes
    wait for the stage before it. narrow: the stage that takes longest.
    """

    name: str
    time: Quantity
    bytes: int | None
    bandwidth: Quantity | None
    limit: str | None
    overlaps: bool
    begins: float
    ends: float
    narrow: bool
    basis: str


class LoadRemedy(msgspec.Struct, frozen=True):
    """One change that helps: how, in words, seconds saved, and the total with it."""

    change: str
    text: Text
    seconds_saved: float
    total: float


class FromHostMemory(msgspec.Struct, frozen=True):
    """Serving with the weights in host memory, per device: every pass moves `bytes` over the link at `bandwidth`.

    per_request: seconds of one pass, the least a request costs, and what every token of its answer costs at batch 1.
    wake: seconds until an engine that sleeps with its weights there (vLLM's level 1) serves again.
    per_layer: seconds for one layer's weights. from_device_memory: the pass as it is, with the weights on the device.
    """

    bytes: int
    bandwidth: Quantity
    per_request: Quantity
    per_layer: Quantity
    from_device_memory: Quantity
    slowdown: float
    wake: Quantity | None


class Load(Answer, frozen=True, kw_only=True):
    """The answer of `load`. Sizes in bytes, times in seconds.

    weights: from storage to device as this loader does it, with 80 % interval: what engines log as loading, with the
    download. total: of the start as this loader does it; total_sequential: every stage after the other;
    total_pipelined: with all that move bytes overlapped. narrow_stage: the name of the longest stage; narrow_reason
    says what bounds it; narrow_transfer: the same of the stages that move weights alone. remedies: single changes, the
    most seconds saved first; steps: what to do first and what then, each with those before it. cached: share of the
    files taken to be in the page cache. peak_host_bytes: host memory held at most beside the page cache.
    warnings: why it does not run so.
    """

    schema: str = "narrows.load/1"
    model: ModelFacts
    gpu: str
    gpu_name: str
    ranks: int
    engine: str
    storage: str
    storage_name: str
    loader: str
    loader_name: str
    pipelined: bool
    bytes: int
    resident_bytes: int
    cached: float
    filesystem: str | None
    stages: tuple[LoadStage, ...]
    weights: Quantity
    total: Quantity
    total_sequential: Quantity
    total_pipelined: Quantity
    narrow_stage: str
    narrow_reason: Text
    narrow_transfer: str
    narrow_transfer_reason: Text
    remedies: tuple[LoadRemedy, ...]
    steps: tuple[LoadRemedy, ...]
    host_memory: FromHostMemory | None
    peak_host_bytes: int
    warnings: tuple[Text, ...] = ()
