"""What `measure load` finds: narrow stages built on purpose, cold runs that are proven, files that misbehave."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from narrows.answers.calibration import calibration
from narrows.answers.load import load
from narrows.answers.measure_load import answer_of, measure_load, verdict
from narrows.answers.measure_load_types import LoadMeasured
from narrows.calibration.store import Correction, MeasuredStorage, add, add_storage
from narrows.loading import place
from narrows.measure import limits, load_ring, load_source, load_ways
from narrows.measure import load_run as runs
from narrows.measure.contention import Conditions
from narrows.measure.disk import filesystem
from narrows.measure.load_cold import State, device_bytes, drop, held, state
from narrows.measure.load_judge import Evidence, Seen, judge
from narrows.measure.load_limits import Host, host, rate
from narrows.measure.load_predict import Beside, expected
from narrows.measure.load_process import Crew, Failed
from narrows.measure.load_ring import Flow, from_files, opened, pieces, stream
from narrows.measure.load_run import Pair, Ran, Taken
from narrows.measure.load_source import given, made
from narrows.measure.load_ways import WAYS, Way, ways
from narrows.measure.load_worker import run as work
from narrows.report.charts import save
from narrows.report.measure_load_chart import loading_chart
from narrows.report.render import answer_text
from narrows.text import BadInput, Text
from narrows.units import MIB

from .conftest import Cli

DISK = filesystem(os.path.abspath(os.environ.get("PYTEST_DEBUG_TEMPROOT") or "/tmp"))
on_disk = pytest.mark.skipif(DISK in ("", "tmpfs", "ramfs", "overlay"), reason="temporary files are in memory here")


def way(id: str) -> Way:
    return next(one for one in WAYS if one.id == id)


def checkpoint(folder: Path, size: int = 16 * MIB, name: str = "model.safetensors") -> Path:
    """A safetensors file of about `size` bytes on the disk."""
    row = {"w": {"dtype": "F16", "shape": [size // 2], "data_offsets": [0, size]}}
    header = msgspec.json.encode(row)
    header += b" " * (-len(header) % 8)
    path = folder / name
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return path


HOST = Host(cached=5e9, mapping=50e9, memcpy=3e9, first_touch=1e9)


def beside(**changed: Any) -> Beside:
    known = {"top": 2e9, "one": 1e9, "window": 1.5e9, "latency": 200e-6, "host": HOST}
    return Beside(**{**known, **changed})


def evidence(**changed: Any) -> Evidence:
    known: dict[str, Any] = {
        "cold": 1.0, "warm": None, "bytes": 10**9, "major": 0.0, "stored": 1e9, "starved": None, "sinking": None,
        "linking": 0.0, "top": 1e9, "one": 1e9, "through": 1e9,
    }  # fmt: skip
    return Evidence(**{**known, **changed})


def named(flow: Flow, top: float, one: float) -> Seen:
    """What is said of a way that our reader took."""
    found = evidence(
        cold=flow.seconds, bytes=flow.bytes, stored=None, starved=flow.starved, sinking=flow.sinking, top=top, one=one,
        through=one,
    )  # fmt: skip
    return judge(found, expected(way("buffered"), flow.bytes, beside()))


# Narrow stages that were built on purpose

BLOCK = 1 * MIB


class Bucket:
    """Lets so many bytes a second through, to all together: a throttled disk, mount or network."""

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth, self.lock, self.free = bandwidth, threading.Lock(), 0.0

    def take(self, size: int) -> None:
        with self.lock:
            self.free = max(self.free, time.perf_counter()) + size / self.bandwidth
            until = self.free
        time.sleep(max(0.0, until - time.perf_counter()))

    def read(self, number: int, buffer: memoryview, offset: int) -> int:
        self.take(len(buffer))
        return len(buffer)


def far(number: int, buffer: memoryview, offset: int) -> int:
    """Storage that answers late, however many ask."""
    time.sleep(0.02)
    return len(buffer)


def limit(read: Callable[[int, memoryview, int], int], depth: int) -> float:
    return rate(read, pieces([64 * MIB], BLOCK), depth, BLOCK, time.perf_counter, 0.3)


def test_a_throttled_reader_is_named_storage() -> None:
    bucket = Bucket(80e6)
    flow = stream(pieces([24 * MIB], BLOCK), bucket.read, lambda view: None, 4, BLOCK)
    seen = named(flow, limit(bucket.read, 8), limit(bucket.read, 1))
    assert (seen.stage, seen.limit) == ("read", "storage")
    assert flow.bytes / flow.seconds == pytest.approx(80e6, rel=0.3)


def test_a_copy_that_is_slower_than_the_storage_is_named_copy() -> None:
    flow = stream(pieces([24 * MIB], BLOCK), Bucket(2e9).read, lambda view: time.sleep(0.02), 4, BLOCK)
    seen = named(flow, 2e9, 2e9)
    assert (seen.stage, seen.limit) == ("host_copy", "memory")
    assert flow.sinking > 10 * flow.starved


def test_one_reader_of_a_far_storage_is_named_readers() -> None:
    flow = stream(pieces([16 * MIB], BLOCK), far, lambda view: None, 1, BLOCK)
    seen = named(flow, limit(far, 8), limit(far, 1))
    assert (seen.stage, seen.limit) == ("read", "readers")
    assert "more readers would help" in str(seen.text)


def test_eight_readers_of_a_far_storage_reach_it() -> None:
    flow = stream(pieces([64 * MIB], BLOCK), far, lambda view: None, 8, BLOCK)
    assert named(flow, limit(far, 8), limit(far, 1)).limit == "storage"


class _Served(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    data = os.urandom(MIB) * 12
    shared: Bucket | None = None
    each: float | None = None

    def do_GET(self) -> None:
        begin, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = self.data[int(begin) : int(end) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{int(begin) + len(part) - 1}/{len(self.data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        mine = Bucket(self.each) if self.each else self.shared
        for at in range(0, len(part), 65536):
            if mine is not None:
                mine.take(len(part[at : at + 65536]))
            self.wfile.write(part[at : at + 65536])

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def server(**settings: Any) -> Iterator[str]:
    handler = type("Served", (_Served,), settings)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{one.server_port}/model.safetensors"
        one.shutdown()


def test_a_throttled_server_is_named_and_predicted() -> None:
    with server(shared=Bucket(30e6)) as address:
        answer = measure_load(address, loader=["http"], pairs=1)
    found = answer.loaders[0]
    assert (found.narrow_stage, found.narrow_limit) == ("read", "storage")
    assert "server or the network" in str(found.narrow_reason)
    assert found.bandwidth.value == pytest.approx(30e6, rel=0.4)
    assert found.error < 0.4


def test_a_server_that_throttles_each_connection_is_named_readers_for_one_reader() -> None:
    with server(each=15e6) as address:
        answer = measure_load(address, loader=["http-1"], pairs=1)
    assert answer.loaders[0].narrow_limit == "readers"


@on_disk
def test_a_mapping_without_read_ahead_is_named_by_its_faults(tmp_path: Path) -> None:
    answer = measure_load(str(checkpoint(tmp_path, 8 * MIB)), loader=["mmap-random"], pairs=1)
    found = answer.loaders[0]
    assert found.cold, found.reason
    assert found.major_faults > 1500
    assert (found.narrow_stage, found.narrow_limit) == ("read", "faults")
    assert found.predicted_narrow == "read"


BLKIO = Path("/sys/fs/cgroup/blkio")
throttles = pytest.mark.skipif(
    not os.access(BLKIO / "blkio.throttle.read_bps_device", os.W_OK), reason="disks can be throttled by root only"
)


@on_disk
@throttles
def test_a_throttled_disk_is_named_and_predicted(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 48 * MIB)
    at = path.stat().st_dev
    group = BLKIO / f"narrows-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "blkio.throttle.read_bps_device").write_text(f"{os.major(at)}:{os.minor(at)} {40_000_000}")
        one = subprocess.run(
            ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), sys.executable, "-m", "narrows",
             "measure", "load", str(path), "--pairs", "1", "--loader", "direct", "--loader", "mmap", "--json"],
            capture_output=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    finally:
        group.rmdir()
    answer = json.loads(one.stdout)
    assert answer["verdict"] == "agrees" and answer["narrow_stage"] == "read"
    for found in answer["loaders"]:
        assert (found["narrow_stage"], found["narrow_limit"]) == ("read", "storage")
        assert found["bandwidth"]["value"] == pytest.approx(40e6, rel=0.3)


@on_disk
def test_many_readers_past_the_page_cache_are_named(tmp_path: Path) -> None:
    answer = measure_load(str(checkpoint(tmp_path, 32 * MIB)), loader=["direct"], pairs=1, ranks=3)
    found = answer.loaders[0]
    assert found.stored_share == pytest.approx(3.0, abs=0.2)
    assert (found.narrow_stage, found.narrow_limit) == ("read", "ranks")
    assert found.stages[0].bytes == 3 * answer.bytes


@on_disk
def test_many_readers_through_the_page_cache_read_once(tmp_path: Path) -> None:
    answer = measure_load(str(checkpoint(tmp_path, 32 * MIB)), loader=["buffered"], pairs=1, ranks=3)
    share = answer.loaders[0].stored_share
    assert share is not None and share < 1.5


@pytest.mark.parametrize(
    ("changed", "by", "stage"),
    [
        ({"warm": 0.95}, "read", "host_allocation"),
        ({"warm": 0.95}, "mmap", "mapping"),
        ({"warm": 0.95}, "buffered", "host_copy"),
        ({"warm": 0.5, "cold": 1.0, "top": 4e9, "through": 4e9}, "read", "host_allocation"),
        ({"warm": 0.2}, "read", "read"),
        ({"warm": 0.95, "linking": 0.8}, "safetensors", "host_to_device"),
    ],
)
def test_a_cold_run_that_takes_no_longer_than_a_warm_one_waits_for_the_host(
    changed: dict[str, Any], by: str, stage: str
) -> None:
    assert judge(evidence(**changed), expected(way(by), 10**9, beside())).stage == stage


def test_a_loader_slower_than_everything_around_it_is_named_itself() -> None:
    assert judge(evidence(cold=9.0, warm=1.0), expected(way("mmap"), 10**9, beside())).limit == "loader"


# What the laws say of measured limits


def test_storage_and_host_memory_overlap_and_the_longer_decides() -> None:
    found = expected(way("buffered"), 10**9, beside())
    assert found.narrow.name == "read"
    assert found.seconds == pytest.approx(1 / 1.5, rel=0.02)


def test_new_memory_that_is_slower_than_the_disk_decides_a_loader_that_reads_whole() -> None:
    found = expected(way("read"), 10**9, beside(top=4e9, window=3e9))
    assert found.narrow.name == "host_allocation"
    assert found.seconds == pytest.approx(1.0 + 0.2, rel=0.02)


def test_pages_that_wait_one_by_one_take_the_latency_of_each() -> None:
    found = expected(way("mmap-random"), 40_960_000, beside(latency=1e-3))
    assert found.seconds == pytest.approx(10.0, rel=0.05)


def test_processes_past_the_page_cache_each_read_everything_and_share_the_cores() -> None:
    assert expected(way("direct"), 10**9, beside(), ranks=4).stages[0].bytes == 4 * 10**9
    assert expected(way("buffered"), 10**9, beside(), ranks=4).stages[0].bytes == 10**9
    alone = expected(way("read"), 10**9, beside()).host
    assert expected(way("read"), 10**9, beside(), ranks=4, cores=2).host == pytest.approx(2 * alone)
    assert expected(way("read"), 10**9, beside(), ranks=4, cores=8).host == pytest.approx(alone)


def test_steps_in_host_memory_that_together_outlast_the_storage_decide() -> None:
    found = expected(way("read"), 10**9, beside(top=0.9e9, window=0.9e9))
    assert [round(one.seconds, 1) for one in found.stages] == [1.1, 1.0, 0.2]
    assert found.narrow.name == "host_allocation"


def test_filling_the_page_cache_is_work_that_reading_ahead_does_not_hide() -> None:
    costly = beside(fill=1e-9)
    found = expected(way("read"), 10**9, costly)
    assert found.seconds == pytest.approx(1.0 + 1.0 + 0.2, rel=0.02)
    assert found.host == pytest.approx(1.2)  # a warm run finds it filled
    assert expected(way("direct"), 10**9, costly) == expected(way("direct"), 10**9, beside())
    shared = {one.name: one.seconds for one in expected(way("runai"), 10**9, costly, cores=4).stages}
    assert shared["page_cache"] == pytest.approx(0.25)


def test_a_loader_past_the_page_cache_is_not_credited_with_what_one_through_it_gets() -> None:
    assert expected(way("direct"), 10**9, beside(top=1e9, window=5e9)).seconds == pytest.approx(1.0)


def test_a_device_adds_the_way_over_its_link() -> None:
    found = expected(way("safetensors"), 10**9, beside(pinned=20e9, pageable=0.5e9))
    assert found.narrow.name == "host_to_device"
    assert found.narrow.seconds == pytest.approx(2.0)


# Cold, and proven so


@pytest.mark.parametrize(
    ("resident", "stored", "device", "reason"),
    [
        (0, 1000, 1000, None),
        (0, None, 1000, None),
        (0, None, None, None),
        (500, 1000, 1000, "50 % of it stayed in the page cache"),
        (0, 100, 200, "the device gave only 20 % of its bytes"),
        (None, None, None, "neither the page cache nor the device says"),
        (None, 1000, None, None),
    ],
)
def test_a_run_is_cold_only_where_pages_and_device_say_so(
    resident: int | None, stored: int | None, device: int | None, reason: str | None
) -> None:
    found = state(resident, stored, device, 1000)
    assert found.cold == (reason is None)
    assert reason is None or reason in str(found.reason)


@on_disk
def test_pages_of_a_file_leave_the_page_cache_and_are_counted(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    handle = os.open(path, os.O_RDONLY)
    try:
        path.read_bytes()
        assert held([str(path)], [handle]) == path.stat().st_size
        drop([handle])
        assert held([str(path)], [handle]) == 0
        before = device_bytes(handle)
        path.read_bytes()
        after = device_bytes(handle)
        assert before is None or after is None or after - before >= path.stat().st_size
    finally:
        os.close(handle)


def test_a_file_that_is_held_is_labelled_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "drop", lambda handles: None)
    path = checkpoint(tmp_path, 4 * MIB)
    path.read_bytes()
    answer = measure_load(str(path), loader=["mmap"], pairs=1)
    assert not answer.loaders[0].cold and answer.loaders[0].verdict == "warm"
    assert answer.verdict == "warm" and answer.error is None
    assert "mmap is labelled warm" in answer_text(answer)


def test_a_second_run_that_reads_from_storage_again_is_no_warm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Again:
        def __init__(self, *_: Any) -> None:
            self.again = 0.0

        def __enter__(self) -> Again:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def go(self) -> tuple[float, list[dict[str, Any]]]:
            self.again += 1
            row = {
                "seconds": 1.0,
                "bytes": 10**9,
                "cpu": 0.1,
                "major": 0.0,
                "minor": 0.0,
                "rss": 1e7,
                "rss_before": 1e7,
            }
            return 1.0, [{**row, "stored": 1e9 if self.again == 1 else again_from[-1]}]

    again_from: list[float] = []
    monkeypatch.setattr(runs, "Crew", Again)
    source = load_source.Source(paths=("m",), sizes=(10**9,), handles=())
    for stored, warm in ((0.0, True), (1e9, False)):
        again_from.append(stored)
        assert (runs._taken(source, way("mmap"), 1, None)[1] is not None) == warm


# Our reader


def test_our_reader_hands_on_every_byte_of_odd_files(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for file, size in zip(files, (5 * MIB + 17, 1, 3 * MIB), strict=True):
        file.write_bytes(os.urandom(size))
    handles, _past = opened([str(file) for file in files])
    seen: list[bytes] = []
    try:
        flow = stream(
            pieces([file.stat().st_size for file in files], BLOCK),
            from_files(handles),
            lambda view: seen.append(bytes(view)),
            3,
            BLOCK,
        )
    finally:
        for handle in handles:
            os.close(handle)
    whole = b"".join(file.read_bytes() for file in files)
    assert flow.bytes == len(whole)
    assert sorted(seen) == sorted(
        file.read_bytes()[at : at + BLOCK] for file in files for at in range(0, file.stat().st_size, BLOCK)
    )


def test_our_reader_ends_all_its_threads_when_a_read_or_the_sink_fails() -> None:
    def broken(number: int, buffer: memoryview, offset: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def refusing(view: memoryview) -> None:
        raise ValueError("no more")

    before = threading.active_count()
    with pytest.raises(OSError, match="Input/output"):
        stream(pieces([8 * MIB], BLOCK), broken, lambda view: None, 4, BLOCK)
    with pytest.raises(ValueError, match="no more"):
        stream(pieces([8 * MIB], BLOCK), Bucket(1e9).read, refusing, 4, BLOCK)
    assert threading.active_count() == before


@on_disk
def test_our_reader_holds_less_than_300_mb_and_stays_within_its_share_of_a_processor(tmp_path: Path) -> None:
    answer = measure_load(make=256 * MIB, scratch=str(tmp_path), loader=["direct"], pairs=1)
    found = answer.loaders[0]
    assert found.peak_rss_bytes < 300e6
    assert found.cpu_per_gb < 2.0  # 0.15 on a machine of its own: benchmarks, not tests, hold that
    assert answer.reader_share is not None


def test_probes_of_host_memory_are_positive(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 4 * MIB)
    with open(path, "rb") as file:
        found = host(file.fileno(), path.stat().st_size, time.perf_counter, 4 * MIB)
    assert min(found.cached, found.mapping, found.memcpy, found.first_touch) > 1e6
    assert host(None, 0, time.perf_counter, MIB).cached == 0


# Files that misbehave, machines that lack something


def test_every_loader_that_needs_nothing_reads_every_byte(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 6 * MIB)
    size = path.stat().st_size
    for id in ("direct", "buffered", "mmap", "populate", "read"):
        found = work({"loader": id, "paths": [str(path)], "sizes": [size]})
        assert found.get("bytes") == size, (id, found)


def test_a_file_that_becomes_shorter_is_told(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 4 * MIB)
    size = path.stat().st_size
    os.truncate(path, MIB)
    for id in ("direct", "buffered", "read"):
        assert work({"loader": id, "paths": [str(path)], "sizes": [size]}).get("ends_early"), id
    crew = Crew({"loader": "mmap", "paths": [str(path)], "sizes": [size]})
    with crew, pytest.raises(Failed, match=r"shorter|length"):
        crew.go()


def test_a_loader_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = msgspec.structs.replace(way("read"), id="unheard-of")
    monkeypatch.setattr(load_ways, "WAYS", (way("mmap"), lacking))
    answer = measure_load(str(checkpoint(tmp_path, 4 * MIB)), pairs=1)
    assert [one.loader for one in answer.loaders] == ["mmap"]
    assert "unheard-of did not load: KeyError" in answer_text(answer)


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"", "model.safetensors", "is empty"),
        (b"\xff" * 64, "model.safetensors", "is no safetensors file"),
        (b"GGUF" * 16, "notes.txt", "there are no .safetensors or .gguf files"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes, name: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        measure_load(str(tmp_path / name))


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 4 * MIB)
    os.truncate(path, 2 * MIB)
    with pytest.raises(BadInput, match="cut short"):
        measure_load(str(path))


def test_what_is_not_there_and_what_contradicts_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        measure_load(str(tmp_path / "nothing.safetensors"))
    with pytest.raises(BadInput, match="one of the two"):
        measure_load()
    with pytest.raises(BadInput, match="one of the two"):
        measure_load("x", make=64 * MIB)
    with pytest.raises(BadInput, match="no directory"):
        measure_load(make=64 * MIB, scratch=str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="does not load this here; use one of: direct"):
        measure_load(str(checkpoint(tmp_path, MIB)), loader=["magic"])
    monkeypatch.setattr(load_ways, "WAYS", (msgspec.structs.replace(way("runai"), modules=("no_such_module",)),))
    with pytest.raises(BadInput, match="needs no_such_module"):
        ways(("runai",), False, "safetensors")
    assert ways((), False, "safetensors") == []


def test_an_address_that_answers_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot be loaded"):
        measure_load("http://127.0.0.1:9/model.safetensors")


def test_of_a_checkpoint_in_many_files_the_first_are_loaded_and_that_is_told(tmp_path: Path) -> None:
    for number in range(3):
        checkpoint(tmp_path, 2 * MIB, f"model-0000{number + 1}-of-00003.safetensors")
    with given(str(tmp_path), 5 * MIB) as source:
        assert len(source.paths) == 2
        assert "the first 2 of 3 files are loaded, 4.00 MiB" in str(source.notes[0])
    with given(str(tmp_path), 1) as source:
        assert len(source.paths) == 1
    with given(str(tmp_path)) as source:
        assert len(source.paths) == 3 and not source.notes


def test_gguf_files_are_loaded_by_what_needs_no_format(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + os.urandom(4 * MIB))
    with given(str(path)) as source:
        assert source.format == "gguf"
        assert {one.id for one in ways((), False, source.format)} == {"direct", "buffered", "mmap", "populate", "read"}


def test_a_full_disk_is_told_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_source, "append", lambda handle, start, size: 0)
    with pytest.raises(BadInput, match="is full"):
        measure_load(make=64 * MIB, scratch=str(tmp_path))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(load_source, "room", lambda folder, most: 1 * MIB)
    with pytest.raises(BadInput, match="wants that and 256 MiB left over"):
        measure_load(make=64 * MIB, scratch=str(tmp_path))
    with pytest.raises(BadInput, match="make at least"):
        measure_load(make=MIB, scratch=str(tmp_path))


def test_a_checkpoint_that_is_made_has_no_name_and_can_be_opened(tmp_path: Path) -> None:
    with made(str(tmp_path), 64 * MIB) as source:
        if source.keep:
            assert not list(tmp_path.iterdir())
        with open(source.paths[0], "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            rows = json.loads(file.read(length))
        assert 8 + length + max(row["data_offsets"][1] for row in rows.values()) == source.size
        assert abs(source.size - 64 * MIB) < MIB
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_knows_no_direct_reads_is_measured_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & getattr(os, "O_DIRECT", 0):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest, **more)

    path = checkpoint(tmp_path, 4 * MIB)
    monkeypatch.setattr(os, "open", refusing)
    handles, past = load_ring.opened([str(path)])
    os.close(handles[0])
    assert not past
    answer = measure_load(str(path), loader=["mmap"], pairs=1)
    assert any("does not read past the page cache" in str(text) for text in answer.assumptions)


def test_a_loader_for_which_memory_is_short_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory", lambda: (8 * MIB, 4 * MIB))
    answer = measure_load(str(checkpoint(tmp_path, 8 * MIB)), loader=["mmap", "read"], pairs=1)
    assert [one.loader for one in answer.failed] == ["read"]
    assert "4.00 MiB are free" in str(answer.failed[0].reason)


@pytest.mark.parametrize(
    ("sign", "sentence"),
    [
        (signal.SIGKILL, "want of memory"),
        (signal.SIGBUS, "became shorter while it was mapped"),
        (signal.SIGSEGV, "code -11"),
    ],
)
def test_a_process_that_the_system_ends_is_told(tmp_path: Path, sign: signal.Signals, sentence: str) -> None:
    path = checkpoint(tmp_path, MIB)
    crew = Crew({"loader": "read", "paths": [str(path)], "sizes": [path.stat().st_size]})
    with crew:
        crew.processes[0].send_signal(sign)
        crew.processes[0].wait()
        with pytest.raises(Failed, match=sentence):
            crew.go()


def test_a_file_that_is_emptied_or_fails_while_it_is_measured_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint(tmp_path, 4 * MIB)
    with given(str(path)) as source:
        os.truncate(path, 0)
        with pytest.raises(BadInput, match="could not be read to its end: nothing is left"):
            runs.run(source, ways(("mmap",), False, "safetensors"), rounds=1)

    def failing(handles: Any) -> Any:
        def read(number: int, buffer: memoryview, offset: int) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        return read

    monkeypatch.setattr(runs, "from_files", failing)
    with pytest.raises(BadInput, match="could not be read to its end: Input/output error"):
        measure_load(str(checkpoint(tmp_path, 4 * MIB)), loader=["mmap"])


def test_a_loader_that_never_answers_is_given_up(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, MIB)
    crew = Crew({"loader": "mmap", "paths": [str(path)], "sizes": [path.stat().st_size]})
    with crew:
        crew.wait = 0.2
        os.kill(crew.processes[0].pid, signal.SIGSTOP)
        with pytest.raises(Failed, match="no answer"):
            crew.go()
    assert crew.processes[0].poll() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("after", [0.7, 2.5])
def test_an_interruption_leaves_no_process_and_no_file(tmp_path: Path, after: float) -> None:
    one = subprocess.Popen(
        [sys.executable, "-m", "narrows", "measure", "load", "--make", "64MiB", "--scratch", str(tmp_path),
         "--pairs", "90", "--loader", "mmap", "--loader", "direct"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    time.sleep(after)
    group = children(one.pid)
    one.send_signal(signal.SIGINT)
    _out, told = one.communicate(timeout=30)
    assert one.returncode != 0
    assert b"Traceback" not in told
    assert not list(tmp_path.iterdir())
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in group)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except OSError:
        return []


def test_the_checkpoint_is_only_read(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 4 * MIB)
    path.chmod(0o444)
    before, changed = path.read_bytes(), path.stat().st_mtime_ns
    measure_load(str(path), loader=["direct", "buffered", "mmap", "populate", "read"], pairs=1)
    assert path.read_bytes() == before and path.stat().st_mtime_ns == changed
    assert [one.name for one in tmp_path.iterdir()] == ["model.safetensors"]


# The answer

CONDITIONS = Conditions(10.0, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)


def taken(seconds: float, size: int = 10**9, **changed: Any) -> Taken:
    known: dict[str, Any] = {
        "seconds": seconds, "bytes": size, "cpu": 0.1, "major": 0.0, "minor": 100.0, "rss": 50e6, "rss_before": 15e6,
        "stored": float(size), "state": State(True, 0, size, size),
    }  # fmt: skip
    return Taken(**{**known, **changed})


def ran(seconds: list[float], tops: tuple[float, ...] = (1.5e9, 1.5e9), **changed: Any) -> Ran:
    pairs = tuple(Pair("mmap", beside(), taken(one), taken(0.05)) for one in seconds)
    pairs += (Pair("direct", beside(), taken(0.55, starved=0.5, sinking=0.01), None),)
    known: dict[str, Any] = {
        "depths": {1: 1e9, 8: 2e9}, "tops": tops, "pairs": pairs, "failed": {"runai": Text("it is not well")},
        "conditions": CONDITIONS, "seconds": 10.0, "rounds": len(seconds),
    }  # fmt: skip
    return Ran(**{**known, **changed})


def answered(found: Ran) -> LoadMeasured:
    source = load_source.Source(paths=("m.safetensors",), sizes=(10**9,), handles=(), filesystem="ext4")
    return answer_of(source, "m.safetensors", found, 1, None, "narrows measure load m.safetensors", False)


def test_the_error_is_the_median_over_pairs_of_loaders_that_are_not_limits_themselves() -> None:
    answer = answered(ran([1 / 1.5, 1.1 / 1.5, 5.0]))
    assert answer.error == pytest.approx(0.09, abs=0.02)
    assert answer.verdict == "agrees"
    assert answer.reader_share == pytest.approx(1 / 0.55 / 2)


def test_a_difference_on_a_disk_that_varied_is_inconclusive_and_on_a_steady_one_a_difference() -> None:
    assert answered(ran([2.0, 2.0])).verdict == "differs"
    shaky = answered(ran([2.0, 2.0], tops=(0.5e9, 2e9)))
    assert shaky.verdict == "inconclusive"
    assert "the storage varied ×" in str(shaky.reasons[0])
    assert "Inconclusive: the storage varied ×" in answer_text(shaky)
    busy = msgspec.structs.replace(CONDITIONS, others=0.8)
    assert answered(ran([2.0], conditions=busy)).verdict == "inconclusive"
    assert verdict(None, False) == "warm"


def test_the_stages_of_a_mapped_loader_are_storage_and_mapping_each_with_what_was_seen() -> None:
    answer = answered(ran([0.7, 0.7]))
    assert answer.loader == "mmap" and answer.narrow_stage == "read"
    stages = {one.name: one for one in answer.stages}
    assert set(stages) == {"read", "mapping"}
    assert stages["read"].time is not None and stages["read"].time.value == pytest.approx(0.7)
    assert stages["mapping"].time is not None and stages["mapping"].time.value == pytest.approx(0.05)
    assert stages["read"].bandwidth.value == pytest.approx(1e9 / 0.7)
    assert stages["read"].narrow and not stages["mapping"].narrow


def test_no_loader_at_all_is_told() -> None:
    with pytest.raises(BadInput, match="no loader could load it: it is not well"):
        answered(ran([], pairs=()))


def test_the_report_and_the_picture_show_every_loader(tmp_path: Path) -> None:
    answer = answered(ran([0.7, 0.7]))
    text = answer_text(answer)
    for word in ("mmap", "direct", "the limit itself", "runai did not load: it is not well", "Our own reader reached"):
        assert word in text
    save(loading_chart(answer), str(tmp_path / "picture.svg"))
    assert "our reader" not in (drawn := (tmp_path / "picture.svg").read_text("utf-8")) and "direct" in drawn


@on_disk
def test_the_command_measures_a_checkpoint_that_it_makes(cli: Cli, tmp_path: Path) -> None:
    code, out, told = cli(
        "measure", "load", "--make", "64MiB", "--scratch", str(tmp_path), "--pairs", "1", "--loader", "mmap",
        "--loader", "direct", "--json",
    )  # fmt: skip
    assert code in (0, 1), told
    answer = json.loads(out)
    assert {one["loader"] for one in answer["loaders"]} == {"mmap", "direct"}
    assert answer["stages"][0]["name"] == "read" and answer["narrow_stage"]
    assert all(one["cold"] for one in answer["loaders"])
    assert not list(tmp_path.iterdir())


# Kept for predictions


def test_what_is_kept_is_used_for_files_of_the_same_storage_and_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARROWS_CALIBRATION", str(tmp_path / "kept.jsonl"))
    path = checkpoint(tmp_path, 4 * MIB)
    answer = measure_load(str(path), loader=["mmap"], pairs=1, calibrate=True)
    assert answer.calibrated
    monkeypatch.setattr(place, "_cached", lambda files, size: 0.0)
    kept = calibration().storages[0]
    add_storage(msgspec.structs.replace(kept, top=1e6, stream=1e6))
    after = load("llama-2-7b", "l40s", source=str(path))
    rate = next(one.bandwidth for one in after.stages if one.name == "read")
    assert rate is not None and rate.value == pytest.approx(1e6)
    assert any("found them here on" in str(text) for text in after.assumptions)
    assert "storage measured here" in answer_text(calibration())
    assert not calibration(forget=1).storages
    again = load("llama-2-7b", "l40s", source=str(path))
    assert again.total.value < after.total.value
    assert not any("found them here on" in str(text) for text in again.assumptions)


def test_corrections_of_engines_and_storages_are_kept_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARROWS_CALIBRATION", str(tmp_path / "kept.jsonl"))
    engine = Correction("vllm", "0.11.0", "l40s", "m", 1, 2**20, "a.log", "2026-01-01")
    storage = MeasuredStorage(
        device="/dev/x", filesystem="ext4", top=2e9, stream=1e9, first_touch=1e9, memcpy=3e9, latency=1e-4, date="2026",
    )  # fmt: skip
    add(engine)
    add_storage(storage)
    add_storage(msgspec.structs.replace(storage, top=3e9))
    add(msgspec.structs.replace(engine, kv_bytes=5))
    found = calibration()
    assert [one.kv_bytes for one in found.corrections] == [5]
    assert [one.top for one in found.storages] == [3e9]
    assert calibration(forget=2).storages == () and len(calibration().corrections) == 1


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_a_process_that_may_take_no_more_memory_says_so(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(runs, "host", full)
    with pytest.raises(BadInput, match="may take no more memory"):
        measure_load(str(checkpoint(tmp_path, 1 * MIB)), loader=["mmap"], pairs=1)
