"""The answer of `measure load` and its parts."""

from __future__ import annotations

import msgspec

from narrows.answers.base import Answer
from narrows.measure.contention import Conditions
from narrows.quantity import Quantity
from narrows.text import Text


class LoadLimit(msgspec.Struct, frozen=True):
    """One limit of this machine, bytes/s.

    name: `storage` (past the page cache, with `depth` reads of 4 MiB under way), `one_reader` (through the page cache),
    `cached` (page cache to a reused buffer), `mapping` (page faults of what is there), `memcpy`, `first_touch` (memory
    new from the system), `pinned`, `pageable` (host to device).
    """

    name: str
    depth: int | None
    bandwidth: Quantity


class MeasuredStage(msgspec.Struct, frozen=True):
    """One stage of one loader, alone: seconds measured and predicted.

    time: None where it was hidden behind another stage, or only its sum with others is known (`host_time`). bytes,
    bandwidth (bytes/s) as measured, else as predicted. limit: as predicted: `readers`, `storage`, `processor`, `link`,
    `memory`. narrow: the counters say that this one decides.
    """

    name: str
    time: Quantity | None
    predicted: Quantity
    bytes: int
    bandwidth: Quantity
    limit: str
    narrow: bool


class LoaderMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """One loader: medians over its pairs, with 80 % intervals.

    cold: its bytes came from storage, checked; else `time` is labelled warm, and `reason` says why. time: seconds;
    warm: run again at once, with its bytes in the page cache; predicted: from the limits measured on either side of
    each run. error: median of |measured ÷ predicted − 1|. verdict: `agrees` (error ≤ 30 %), `differs`, `inconclusive`
    (the machine was not the same from probe to run), `warm` (nothing to compare). narrow_stage, narrow_limit: as the
    counters of the run say (`storage`, `readers`, `faults`, `ranks`, `memory`, `link`, `loader`); predicted_narrow: as
    the laws say. cpu_per_gb: processor seconds per 10^9 bytes. peak_rss_bytes: of one process, rss_before_bytes: before
    it began. major_faults waited for storage, minor_faults did not. stored_share: bytes from storage per byte of the
    checkpoint. host_time, host_predicted: of all stages in host memory. is_limit: it measures the limit itself.
    """

    loader: str
    name: Text
    pairs: int
    cold: bool
    reason: Text | None
    bytes: int
    time: Quantity
    bandwidth: Quantity
    warm: Quantity | None
    predicted: Quantity
    error: float
    verdict: str
    stages: tuple[MeasuredStage, ...]
    host_time: Quantity | None
    host_predicted: Quantity
    narrow_stage: str
    narrow_limit: str
    narrow_reason: Text
    predicted_narrow: str
    narrow_agrees: bool
    cpu_per_gb: float
    peak_rss_bytes: int
    rss_before_bytes: int
    major_faults: int
    minor_faults: int
    stored_share: float | None
    is_limit: bool


class LoaderFailed(msgspec.Struct, frozen=True):
    """A loader without figures, and why."""

    loader: str
    reason: Text


class LoadMeasured(Answer, frozen=True, kw_only=True):
    """The answer of `measure load`. Sizes in bytes, times in seconds, rates in bytes/s.

    path: None where the checkpoint was made for it. loaders: each that ran; stages, narrow_stage, narrow_reason: of
    `loader`, what engines use by themselves where it ran. fastest: the loader that took least time cold. pairs: rounds;
    error: median over all pairs of loaders that are not limits themselves and were cold. varied: by which factor the
    storage varied over the run (90th over 10th percentile). verdict: as for a loader. reader_share: our own reader's
    rate as a share of what storage gave beside it. calibrated: kept for predictions.
    """

    schema: str = "narrows.measure-load/1"
    path: str | None
    bytes: int
    files: int
    format: str
    filesystem: str
    ranks: int
    device: str | None
    limits: tuple[LoadLimit, ...]
    latency: Quantity
    loaders: tuple[LoaderMeasured, ...]
    failed: tuple[LoaderFailed, ...]
    loader: str
    stages: tuple[MeasuredStage, ...]
    narrow_stage: str
    narrow_reason: Text
    fastest: str
    pairs: int
    error: float | None
    varied: float
    verdict: str
    reasons: tuple[Text, ...]
    reader_share: float | None
    conditions: Conditions
    seconds: float
    calibrated: bool = False
