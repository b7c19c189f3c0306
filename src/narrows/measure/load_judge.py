"""What was seen of a loader says which stage was the narrow one: from its counters, not from the prediction."""

from __future__ import annotations

import msgspec

from narrows.measure.load_predict import Expected
from narrows.text import Text
from narrows.units import bandwidth, binary

PAGE = 4096
NEAR = 0.7
"""From this share of a limit on, the limit is what bounds a loader."""
APART = 1.5
"""Rates that differ by this factor are different."""
HIDDEN = 1.25
"""A cold run that takes no longer than so many warm ones waits for the host, not for the storage."""
MOSTLY = 0.5
HOSTLY = 0.4


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What one loader's runs showed; medians. Seconds, bytes, bytes/s.

    cold, warm: seconds with the files out of and in the page cache (None: not run, or nothing to tell apart). bytes:
    per process. major: page faults that waited for storage. stored: bytes that all processes had from storage.
    starved, sinking: seconds that our reader's hand waited for bytes, and that it worked on them. linking: seconds of
    copies to a device. top, one: the storage with many reads under way and with one; through: what its own readers
    could reach, one reader through the page cache or many past it. ranks: processes. http: over a network.
    """

    cold: float
    warm: float | None
    bytes: int
    major: float
    stored: float | None
    starved: float | None
    sinking: float | None
    linking: float
    top: float
    one: float
    through: float
    ranks: int = 1
    http: bool = False

    @property
    def rate(self) -> float:
        """Bytes/s of one process."""
        return self.bytes / self.cold

    @property
    def behind(self) -> bool:
        """Whether what comes after storage took longest."""
        if self.starved is not None and self.sinking is not None:
            return self.sinking > self.starved
        if self.warm is None:
            return False
        # pages of the page cache are host memory too, which a warm run finds filled
        much = self.warm > HOSTLY * self.cold and self.rate < self.through / APART
        return self.cold < HIDDEN * self.warm or much


class Seen(msgspec.Struct, frozen=True):
    """The narrow stage and what bounds it (`storage`, `readers`, `faults`, `ranks`, `memory`, `link`, `loader`)."""

    stage: str
    limit: str
    text: Text


def judge(found: Evidence, by_law: Expected) -> Seen:
    """The narrow stage that the counters tell. by_law: which of several stages in host memory is the longest."""
    rate, top = bandwidth(found.rate), bandwidth(found.top)
    if found.behind:
        return _behind(found, by_law)
    if found.major * PAGE > MOSTLY * found.bytes and found.rate < found.top / APART:
        return Seen(
            "read",
            "faults",
            Text(
                "every page of {size} waited for the storage by itself: {rate} of {top}; the way of reading decides, "
                "so read ahead, fill the mapping first, or read without mapping",
                size=binary(PAGE, 0),
                rate=rate,
                top=top,
            ),
        )
    if found.ranks > 1 and found.stored is not None and found.stored > APART * found.bytes:
        return Seen(
            "read",
            "ranks",
            Text(
                "{ranks} processes had {times} times the checkpoint from storage: a file per rank, a loader that "
                "distributes, or one that goes through the page cache",
                ranks=found.ranks,
                times=f"{found.stored / found.bytes:.1f}",
            ),
        )
    alone = min(found.one, found.through)
    if found.top > APART * alone and found.rate < min(APART * alone, NEAR * found.top):
        return Seen(
            "read",
            "readers",
            Text(
                "reads that wait for each other reach {rate}; many at once reach {top}: more readers would help, a "
                "faster disk would not",
                rate=rate,
                top=top,
            ),
        )
    if found.rate * (found.ranks if found.stored is None else 1) > NEAR * min(found.top, found.through):
        if found.http:
            text = Text("the server or the network gives {top}, and that is nearly reached: {rate}", top=top, rate=rate)
        elif found.rate > found.top:
            text = Text("the storage decides: {rate}, and {top} just before and after", top=top, rate=rate)
        else:
            text = Text("the storage gives {top}, and that is nearly reached: {rate}", top=top, rate=rate)
        return Seen("read", "storage", text)
    return Seen(
        "read",
        "loader",
        Text(
            "the storage gives {top} and this loader takes {rate}: its own way of reading decides", top=top, rate=rate
        ),
    )


def _behind(found: Evidence, by_law: Expected) -> Seen:
    if found.linking > MOSTLY * found.cold:
        return Seen("host_to_device", "link", Text("copies to the device take longest: pinned memory, fewer copies"))
    host = [one for one in by_law.stages if one.name not in ("read", "page_cache")]
    name = max(host, key=lambda one: one.seconds).name if host else "host_copy"
    text = {
        "host_allocation": Text(
            "new host memory is slower than the storage: a loader that reuses its buffers needs none"
        ),
        "host_copy": Text("the copy in host memory is slower than the storage: fewer passes would help"),
        "mapping": Text("mapping pages is slower than the storage: larger pages, or reads into reused buffers"),
        "host_to_device": Text("copies to the device take longest: pinned memory, fewer copies"),
    }[name]
    return Seen(name, "link" if name == "host_to_device" else "memory", text)
