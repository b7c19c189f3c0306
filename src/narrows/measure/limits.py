"""What this process may use: cores, memory and caches, cgroups counted."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narrows.text import BadInput
from narrows.units import MIB


def cores() -> int:
    """Processors that this process may run on; a cgroup's quota of time is rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota()
    return max(1, min(allowed, -int(-quota // 1))) if quota else max(1, allowed)


def _quota() -> float | None:
    """Processors' worth of time that cgroups grant (v2 `cpu.max`, v1 `cpu.cfs_quota_us`); None: no limit."""
    found = []
    for folder in cgroups():
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdecimal():
            found.append(int(words[0]) / int(words[1]))
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal():
            found.append(int(quota) / int(period))
    return min(found, default=None)


def cgroups(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> list[Path]:
    """The folders of this process's cgroups (v1 and v2) and of those around them."""
    found = []
    for line in _text(Path(own)).splitlines():
        _number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        base = Path(root) / controllers if controllers else Path(root)
        here = base / path.lstrip("/")
        found += [one for one in (here, *here.parents) if one.is_relative_to(root)]
    return list(dict.fromkeys([*found, Path(root), Path(root) / "memory", Path(root) / "cpu"]))


def memory() -> tuple[int, int]:
    """(bytes in all, bytes that can still be taken): of the machine, or of the tightest cgroup around this process."""
    total, available = _machine_memory()
    for folder in cgroups():
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most, now = _text(folder / limit), _text(folder / used)
            if most.isdecimal() and int(most) < total:
                total = int(most)
                if now.isdecimal():
                    # what the group keeps of files can be taken back
                    cached = _fields(folder / "memory.stat").get("inactive_file", 0)
                    available = min(available, max(0, total - int(now) + cached))
    return total, min(total, available, _room())


def _room() -> int:
    """Bytes of addresses that this process may still take (`ulimit -v`); very many without a limit."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, AttributeError, OSError):
        return 2**62
    taken = _text(Path("/proc/self/statm")).split()
    if most == resource.RLIM_INFINITY or not taken:
        return 2**62
    return max(0, most - int(taken[0]) * os.sysconf("SC_PAGE_SIZE"))


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turns what libraries raise where memory ends into BadInput."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        short = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
        words = str(error).lower()
        if short or any(said in words for said in ("start new thread", "not enough memory", "out of memory")):
            raise BadInput("this cannot be measured: this process may take no more memory") from None
        raise


def _machine_memory() -> tuple[int, int]:
    fields = _fields(Path("/proc/meminfo"))
    if "MemAvailable" in fields:
        return fields["MemTotal"] * 1024, fields["MemAvailable"] * 1024
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1024 * MIB, 512 * MIB
    return total, total // 2  # without /proc nothing says how much of it is free


def last_level_cache(root: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """Bytes of the largest cache of a processor; 32 MiB where the system does not say."""
    sizes = []
    for path in sorted(Path(root).glob("index*/size")):
        text = _text(path)
        digits = text.rstrip("KMG")
        if digits.isdecimal():
            sizes.append(int(digits) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[text[len(digits) :]])
    return max(sizes, default=32 * MIB)


def processor() -> str:
    """The processor's name as the system gives it."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return " ".join(value.split())
    return platform.processor() or platform.machine() or "processor"


def _fields(path: Path) -> dict[str, int]:
    """`Name: 12 kB` and `name 12` lines."""
    found = {}
    for line in _text(path).splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdecimal():
            found[words[0]] = int(words[1])
    return found


def _text(path: Path) -> str:
    """A small file of the system, stripped; empty where it is not there."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
