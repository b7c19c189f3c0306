"""`measure load` on a mount of its own (FUSE): throttled for all, and late for each request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from narrows.answers.measure_load import measure_load
from narrows.measure.load_cold import kept
from narrows.measure.load_judge import judge
from narrows.measure.load_predict import expected
from narrows.units import MIB

from .test_measure_load import beside, checkpoint, evidence, way

pytest.importorskip("mfusepy")
pytestmark = pytest.mark.skipif(
    not (os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3")), reason="nothing can be mounted here"
)


@contextmanager
def mounted(folder: Path, size: int, rate: float = 0.0, latency: float = 0.0) -> Iterator[str]:
    """A checkpoint of `size` bytes behind a mount that lets `rate` bytes/s through and is `latency` seconds away."""
    path, point = checkpoint(folder, size), folder / "mount"
    point.mkdir()
    script = str(Path(__file__).parent / "throttled_mount.py")
    server = subprocess.Popen(
        [sys.executable, script, str(path), str(point), str(rate), str(latency)], stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 30
        while not os.path.ismount(point):
            if server.poll() is not None or time.monotonic() > until:
                pytest.skip("a file system cannot be mounted here")
            time.sleep(0.02)
        yield str(point / "model.safetensors")
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(point)], capture_output=True, check=False)
        server.wait(30)


def test_a_throttled_mount_is_named_storage_for_every_loader(tmp_path: Path) -> None:
    with mounted(tmp_path, 24 * MIB, rate=60e6) as path:
        answer = measure_load(path, loader=["direct", "buffered", "mmap", "read"], pairs=1)
    assert {(one.narrow_stage, one.narrow_limit) for one in answer.loaders} == {("read", "storage")}
    for one in answer.loaders:
        assert one.cold and one.bandwidth.value == pytest.approx(60e6, rel=0.3)


def test_a_mount_that_is_far_away_wants_more_readers_and_our_own_has_them(tmp_path: Path) -> None:
    with mounted(tmp_path, 24 * MIB, latency=0.01) as path:
        answer = measure_load(path, loader=["direct", "buffered", "mmap"], pairs=1)
    found = {one.loader: one for one in answer.loaders}
    assert found["buffered"].narrow_limit == found["mmap"].narrow_limit == "readers"
    assert "more readers would help" in str(found["mmap"].narrow_reason)
    assert found["direct"].bandwidth.value > 3 * found["buffered"].bandwidth.value


def test_a_mount_that_gives_pages_up_at_every_opening_has_no_warm_run(tmp_path: Path) -> None:
    with mounted(tmp_path, 16 * MIB) as path:
        with open(path, "rb") as file:
            file.read()
            assert kept([path], [file.fileno()]) == 0
        answer = measure_load(path, loader=["buffered"], pairs=1)
    assert answer.loaders[0].warm is None


def test_one_reader_through_the_page_cache_that_is_slower_than_many_past_it_is_named_readers() -> None:
    seen = judge(
        evidence(cold=12.0, stored=None, top=190e6, one=130e6, through=85e6),
        expected(way("mmap"), 10**9, beside(top=190e6, one=130e6, window=85e6)),
    )
    assert (seen.stage, seen.limit) == ("read", "readers")
