"""What `measure machine` finds does not depend on who asks: fake clocks and libraries whose speed is known."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from narrows.answers.fit import fit
from narrows.answers.gpus import gpus
from narrows.answers.measure import MachineMeasured, measure_machine
from narrows.calibration.curve import curve_of, measured_row, values_of
from narrows.calibration.laws import Law, law, measured_laws
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.hardware.this_machine import machine, machine_path
from narrows.measure import disk as disks
from narrows.measure import limits, scratch
from narrows.measure.compute import peaks, rows, squares
from narrows.measure.contention import Conditions, Counters, Watch, counters
from narrows.measure.devices import all_reduces, transfers
from narrows.measure.library import Library
from narrows.measure.machine import Probed, chosen, probe
from narrows.measure.memory import bandwidths, first_touch, working_sets
from narrows.measure.numpy_library import Numpy
from narrows.measure.timing import Action, Pace, sample
from narrows.measure.torch_library import Torch
from narrows.models import load_model
from narrows.report import charts
from narrows.report.measure_chart import machine_chart
from narrows.report.render import answer_text
from narrows.roofline import roof
from narrows.roofline.cost import Costs
from narrows.roofline.step_time import StepTime
from narrows.step import Batch, Gemm, plan_of
from narrows.text import BadInput, Text
from narrows.units import GIB, KIB, MIB
from narrows.units import bandwidth as told

from .conftest import Cli

PEAK, BANDWIDTH, LAUNCH = 100e9, 20e9, 2e-6


class Fake:
    """A library on a clock of its own: an action takes as long as a roofline says, and no time passes otherwise."""

    name = "fake 1"
    device = "cpu"
    precisions: tuple[str, ...] = ("fp32", "bf16", "fp8")

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def clock(self) -> float:
        return self.now

    def taking(self, seconds: float) -> Action:
        def run() -> None:
            self.calls += 1
            self.now += LAUNCH + seconds

        return run

    def close(self) -> None:
        pass

    def settle(self) -> None:
        pass

    def linear(self, m: int, k: int, n: int, precision: str, copies: int = 1) -> Action:
        if precision == "fp8":
            raise RuntimeError("addmm is not there for Float8_e4m3fn")
        width, peak = {"fp32": (4, PEAK), "bf16": (2, 2 * PEAK)}[precision]
        return self.taking(max(2 * m * k * n / peak, width * k * n / BANDWIDTH))

    def reading(self, size: int) -> dict[str, Action]:
        fast = 5 if size <= 1 * MIB else 1
        return {"sum": self.taking(size / BANDWIDTH / fast), "slow": self.taking(size / BANDWIDTH * 2)}

    def passes(self, size: int) -> int:
        return 1

    def copying(self, size: int, threads: int | None = None) -> Action:
        return self.taking(size / BANDWIDTH * (2 if threads == 1 else 1))

    def adding(self, size: int) -> Action:
        return self.taking(size / BANDWIDTH)

    def dispatch(self) -> Action:
        return self.taking(0)

    def touching(self, buffer: Any) -> Action:
        return self.taking(len(buffer) / 2e9)


def quiet(share: float = 0.0, stolen: float = 0.0) -> Callable[[], Counters]:
    """Counters of a machine of which others take a share of the processors' time."""
    at = [-100.0]

    def read() -> Counters:
        at[0] += 100
        room = at[0] * (os.cpu_count() or 1)
        return Counters(clock=at[0], own=0.0, busy=share * room, stolen=stolen * room, waiting=0.0, load=0.1)

    return read


def probed(read: Callable[[], Counters] | None = None, **settings: Any) -> Probed:
    fake = Fake()
    return probe(libraries=[fake], clock=fake.clock, read=read or quiet(), **settings)


def measured(read: Callable[[], Counters] | None = None, **settings: Any) -> MachineMeasured:
    return measure_machine(disk=False, probing=lambda *a, **k: probed(read, budget=60), **settings)


# Timing


def test_the_median_of_repeats_is_what_is_told_and_the_warm_up_is_not_among_them() -> None:
    fake = Fake()
    lasts = iter([9.0, 0.1, 0.11, 0.09, 0.1, 5.0, 0.1, *[0.1] * 50])

    def run() -> None:
        fake.now += next(lasts)

    taken = sample(run, clock=fake.clock, budget=0.4)
    assert taken.median == pytest.approx(0.1)
    assert taken.low < taken.median < taken.high


def test_an_action_shorter_than_the_clock_can_tell_is_run_many_times_in_one_repeat() -> None:
    fake = Fake()
    taken = sample(fake.taking(0), clock=fake.clock, budget=0.01)
    assert taken.median == pytest.approx(LAUNCH)
    assert fake.calls / taken.repeats > 100


def test_an_action_longer_than_the_budget_is_run_three_times_in_all() -> None:
    fake = Fake()
    assert sample(fake.taking(10), clock=fake.clock, budget=0.2).repeats == 2
    assert fake.calls == 3


def test_a_stage_never_has_more_time_than_the_whole() -> None:
    fake = Fake()
    whole = Pace(fake.clock, 10)
    fake.now = 8
    assert whole.part(5).left == 2
    fake.now = 11
    assert whole.left == 0


# Products


def test_the_peak_of_each_precision_is_found_and_a_format_that_a_library_lacks_is_left_out() -> None:
    fake = Fake()
    found = peaks(squares([fake], Pace(fake.clock, 60), GIB))
    assert set(found) == {"fp32", "bf16"}
    assert found["fp32"].flops.value == pytest.approx(PEAK, rel=0.01)
    assert found["bf16"].flops.value == pytest.approx(2 * PEAK, rel=0.01)


def test_a_peak_is_that_of_the_fastest_library() -> None:
    slow, fast = Fake(), Fake()
    slow.name, fast.name = "slow 1", "fast 1"
    slow.precisions = fast.precisions = ("fp32",)
    slow.linear = lambda m, k, n, precision, copies=1: slow.taking(m * k * n / 1e9)  # type: ignore[method-assign]
    fast.clock = slow.clock  # type: ignore[method-assign]
    fast.taking = lambda seconds: slow.taking(seconds)  # type: ignore[method-assign]
    assert peaks(squares([slow, fast], Pace(slow.clock, 60), GIB))["fp32"].library == "fast 1"


def test_the_curve_over_rows_is_flat_while_weights_decide_and_then_grows_with_the_rows() -> None:
    fake = Fake()
    found = rows(fake, ["fp32"], Pace(fake.clock, 60), 4 * GIB, 32 * MIB)
    time_of = {one.m: one.time.value for one in found if one.k == 4096}
    assert time_of[4] == pytest.approx(time_of[1])
    assert time_of[512] == pytest.approx(2 * time_of[256], rel=0.01)


def test_products_that_take_too_long_are_left_out_and_the_time_is_kept() -> None:
    fake = Fake()
    fake.linear = lambda m, k, n, precision, copies=1: fake.taking(m * k * n / 1e7)  # type: ignore[method-assign]
    found = squares([fake], Pace(fake.clock, 60), GIB)
    assert {one.m for one in found} == {256}
    rows(fake, ["fp32"], Pace(fake.clock, 60 - fake.now), GIB, 32 * MIB)
    assert fake.now < 90


def test_no_product_takes_more_memory_than_there_is() -> None:
    fake = Fake()
    assert max(one.m for one in squares([fake], Pace(fake.clock, 600), 16 * MIB)) == 1024
    assert not [one for one in rows(fake, ["fp32"], Pace(fake.clock, 60), 32 * MIB, 8 * MIB) if one.k == 4096]


# Memory


@pytest.mark.parametrize(("memory", "cache"), [(4 * GIB, 32 * MIB), (64 * GIB, 32 * MIB), (64 * GIB, 384 * MIB)])
def test_the_largest_working_set_is_beyond_the_cache_and_within_an_eighth_of_memory(memory: int, cache: int) -> None:
    sizes = working_sets(memory, cache)
    assert sizes[0] == 16 * KIB and sizes == sorted(sizes)
    assert 2 * cache <= sizes[-1] <= memory // 8


def test_little_memory_leaves_small_working_sets_only() -> None:
    assert working_sets(256 * MIB, 32 * MIB)[-1] <= 32 * MIB


def test_caches_show_and_the_fastest_kernel_is_kept() -> None:
    fake = Fake()
    found = bandwidths([fake], working_sets(GIB, 32 * MIB), 2, Pace(fake.clock, 30))
    read = {one.working_set: one for one in found if one.operation == "read"}
    assert read[1 * MIB].bandwidth.value > 4 * read[128 * MIB].bandwidth.value
    assert read[128 * MIB].bandwidth.value == pytest.approx(BANDWIDTH, rel=0.01)
    assert {one.kernel for one in read.values()} == {"sum"}
    assert {one.operation for one in found if one.working_set == 128 * MIB} == {"read", "copy", "add"}


def test_on_one_processor_every_bandwidth_is_in_the_table_and_none_beside_it() -> None:
    several = measured()
    alone = msgspec.structs.replace(
        several,
        cores=1,
        bandwidths=tuple(msgspec.structs.replace(one, threads=1) for one in several.bandwidths if one.threads != 1),
    )
    text = " ".join(answer_text(alone).split())
    assert "one thread copies" not in text
    assert "on one core;" in text
    assert all(told(one.bandwidth.value) in text for one in alone.bandwidths)


def test_first_touch_is_a_rate() -> None:
    fake = Fake()
    assert first_touch(fake, 64 * MIB, Pace(fake.clock, 5)).value == pytest.approx(2e9, rel=0.01)


def test_numpy_reads_copies_and_adds_what_it_says() -> None:
    library = Numpy(2)
    try:
        import numpy as np

        for size in (64 * KIB, 64 * MIB):
            for run in library.reading(size).values():
                run()
            assert library.passes(size) * size >= 32 * MIB
        for run in (library.copying(MIB), library.copying(MIB, 1), library.adding(MIB), library.dispatch()):
            run()
        buffer = np.zeros(8192, np.uint8)
        library.touching(buffer)()
        assert buffer.nonzero()[0].tolist() == [0, 4096]
        library.linear(3, 64, 32, "fp32", copies=2)()
    finally:
        library.close()


# Was it quiet?


def test_a_quiet_machine_gives_no_reason_for_doubt() -> None:
    assert probed().conditions.contended == ()


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (quiet(0.5), "other processes took 50 % of the processors' time"),
        (quiet(stolen=0.1), "the hypervisor gave 10 % of the processors' time to others"),
    ],
)
def test_a_machine_that_works_for_others_says_so(read: Callable[[], Counters], reason: str) -> None:
    assert reason in [str(text) for text in probed(read).conditions.contended]


def test_repeats_that_differ_are_a_reason_for_doubt() -> None:
    assert "differ by 80 %" in str(Watch(quiet()).stop(spread=0.8).contended[0])


def test_what_a_process_uses_itself_is_not_of_others() -> None:
    counts = iter([Counters(0.0, 0.0, busy=0.0, stolen=0.0), Counters(10.0, 18.0, busy=18.5, stolen=0.0)])
    found = Watch(lambda: next(counts), processors=2).stop()
    assert found.others == pytest.approx(0.025)
    assert not found.contended


def test_the_system_is_read_as_it_writes(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "stat").write_text("cpu  1000 100 500 9000 50 0 20 30 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    (tmp_path / "pressure" / "cpu").write_text(
        "some avg10=8.40 avg60=3.34 avg300=1.97 total=7000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    found = counters(str(tmp_path))
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.busy, found.stolen, found.waiting) == (1620 / ticks, 30 / ticks, 7.0)
    assert found.thrashing is None
    assert counters(str(tmp_path / "nowhere")).busy is None


# Limits


def test_a_cgroup_limits_memory_and_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "kube" / "pod"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{512 * MIB}\n")
    (group / "memory.current").write_text(f"{200 * MIB}\n")
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {50 * MIB}\n")
    (group / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "kube" / "memory.max").write_text("max\n")
    monkeypatch.setattr(limits, "cgroups", lambda: [group, tmp_path / "kube", tmp_path])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert limits.memory() == (512 * MIB, 362 * MIB)
    assert limits.cores() == 2


def test_the_groups_of_a_process_are_found_with_those_around_them(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("12:memory:/a/b\n0::/kube/pod\n")
    found = limits.cgroups("/sys/fs/cgroup", str(own))
    assert Path("/sys/fs/cgroup/kube/pod") in found and Path("/sys/fs/cgroup/kube") in found
    assert Path("/sys/fs/cgroup/memory/a/b") in found
    assert Path("/sys/fs") not in found


def test_the_last_cache_is_the_largest(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "512K", "32768K")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert limits.last_level_cache(str(tmp_path)) == 32 * MIB
    assert limits.last_level_cache(str(tmp_path / "none")) == 32 * MIB


# Disk


def test_the_disk_is_read_in_every_way_and_nothing_stays(tmp_path: Path) -> None:
    found = disks.disk(str(tmp_path), 64 * MIB, Pace(time.perf_counter, 3))
    ways = {one.way for one in found.rates}
    assert {"write", "buffered", "mmap"} <= ways
    assert "direct" in ways or any("past the page cache" in str(note) for note in found.notes)
    assert all(one.bandwidth.value > 0 for one in found.rates)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_being_measured_has_no_name(tmp_path: Path) -> None:
    with scratch.scratch(str(tmp_path)) as handle:
        assert scratch.append(handle, 0, 8 * MIB) == 8 * MIB
        assert os.fstat(handle).st_nlink == 0
        assert os.listdir(tmp_path) == []


def test_without_nameless_files_a_name_is_taken_away_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with scratch.scratch(str(tmp_path)) as handle:
        assert os.fstat(handle).st_nlink == 0 and os.listdir(tmp_path) == []


def test_a_file_system_without_direct_reads_is_told_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(handle: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(disks, "_reopened", refused)
    found = disks.disk(str(tmp_path), 64 * MIB, Pace(time.perf_counter, 2))
    assert "Invalid argument" in str(found.notes[-1])
    assert {one.way for one in found.rates} == {"write", "buffered", "mmap"}


def test_a_file_that_cannot_be_read_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(disks, "_mapped", broken)
    found = disks.disk(str(tmp_path), 64 * MIB, Pace(time.perf_counter, 2))
    assert any("Input/output error" in str(note) for note in found.notes)
    assert {one.way for one in found.rates} >= {"write", "buffered"}


def test_a_folder_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="choose --scratch"):
        disks.disk(str(tmp_path / "nowhere"), 64 * MIB, Pace(time.perf_counter, 1))
    with pytest.raises(BadInput, match="no directory"):
        measure_machine(scratch=str(tmp_path / "nowhere"))


def test_a_full_disk_is_told_and_nothing_stays(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MIB, hard))
    try:
        found = disks.disk(str(tmp_path), 64 * MIB, Pace(time.perf_counter, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "is full: 8.00 MiB of 64.00 MiB could be written" in str(found.notes[0])
    assert found.rates == () and os.listdir(tmp_path) == []


def test_a_disk_with_little_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "room", lambda folder, most: 4 * MIB)
    found = disks.disk(str(tmp_path), 64 * MIB, Pace(time.perf_counter, 1))
    assert "too full" in str(found.notes[0]) and found.size == 0


def test_the_file_system_is_the_one_that_holds_the_folder(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\nx {tmp_path}x nfs rw 0 0\n")
    assert disks.filesystem(str(tmp_path), str(mounts)) == "tmpfs"
    assert disks.filesystem("/", str(mounts)) == "ext4"


# As a device


def test_what_was_measured_is_the_accelerator_this_machine() -> None:
    assert measured().stored
    device = find_accelerator("This-Machine")
    assert device.peak("fp32") == pytest.approx(PEAK, rel=0.01)
    assert device.memory_bandwidth == pytest.approx(BANDWIDTH, rel=0.01)
    assert device.precisions == ("fp32", "bf16")
    assert roof(device, "bf16").ridge == pytest.approx(2 * PEAK / BANDWIDTH, rel=0.02)


def test_every_question_takes_this_machine() -> None:
    measured()
    candidate = fit("llama-2-7b", "this-machine", max_len=512, memory=40 * GIB).candidates[0]
    assert candidate.gpu == "this-machine" and candidate.fits and candidate.usd_per_hour is None
    assert [one.id for one in gpus("this-machine").gpus] == ["this-machine"]


def test_before_anything_was_measured_the_name_says_what_to_run() -> None:
    with pytest.raises(BadInput, match="run 'narrows measure machine'"):
        find_accelerator("this-machine")


def test_a_disturbed_run_is_not_kept_unless_it_is_forced() -> None:
    answer = measured(quiet(0.3))
    assert not answer.stored and "--force" in str(answer.reason)
    assert machine() is None
    assert measured(quiet(0.3), force=True).stored
    kept = machine()
    assert kept is not None and kept.contended


def test_what_was_kept_before_stays_when_a_run_is_not_kept() -> None:
    measured()
    before = Path(machine_path()).read_bytes()
    measured(quiet(0.3))
    measured(store=False)
    assert Path(machine_path()).read_bytes() == before
    assert os.listdir(os.path.dirname(machine_path())).count("this-machine.json") == 1


def test_it_stands_beside_its_data_sheet() -> None:
    answer = measured(beside="xeon-8480plus")
    sheet = find_accelerator("xeon-8480plus")
    assert answer.bandwidth_share == pytest.approx(BANDWIDTH / sheet.memory_bandwidth, rel=0.01)
    shares = {one.precision: one.share for one in answer.peaks}
    assert shares["bf16"] == pytest.approx(2 * PEAK / sheet.peak("bf16"), rel=0.01)
    assert find_accelerator("this-machine").int8 is None  # on paper only


@pytest.mark.parametrize("text", ["{", "[]", '{"device": 3}', "\xff", '{"schema": "other"}'])
def test_a_damaged_file_is_told_not_ignored(text: str) -> None:
    Path(machine_path()).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match="cannot be read"):
        find_accelerator("this-machine")


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NARROWS_MACHINE", str(tmp_path / "file" / "this-machine.json"))

    def never(*_: Any, **__: Any) -> Probed:
        raise AssertionError("measured all the same")

    with pytest.raises(BadInput, match="cannot be written"):
        measure_machine(probing=never)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seconds": 1}, "--seconds"), ({"seconds": float("nan")}, "--seconds"), ({"beside": "h900"}, "h900")],
)
def test_bad_input_is_refused_before_the_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        measure_machine(**settings)


def test_a_device_that_is_not_there_is_refused_with_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.measure.machine.import_torch", lambda: None)
    with pytest.raises(BadInput, match="no device 'cuda' here; there are: cpu"):
        chosen("cuda")
    assert chosen(None) == ("cpu", ["cpu"])


def test_without_any_library_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.measure.machine.import_torch", lambda: None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(BadInput, match=r"pip install 'narrows\[torch\]'"):
        measure_machine(disk=False)


# The curve as a law


def test_the_measured_curve_is_kept_as_a_law_of_this_machine() -> None:
    measured()
    row = measured_row("fp32")
    assert row is not None
    curve = curve_of(row)
    assert curve.seconds(1, 4096, 4096) == pytest.approx(4 * 4096**2 / BANDWIDTH, rel=0.01)
    assert curve.seconds(700, 4096, 4096) == pytest.approx(2 * 700 * 4096**2 / PEAK, rel=0.05)
    assert measured_row("fp4") is None


def test_laws_of_this_machine_come_before_those_that_narrows_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    measured()
    shipped = Law("read", "any", {}, 1, 1, 0, "", "")
    monkeypatch.setattr("narrows.calibration.laws.laws", lambda name: (shipped,))
    assert law("curves", "read", ("this-machine", "cpu", "any")).device == "this-machine"
    assert law("curves", "read", ("l40s", "any")) is shipped
    assert {row.operator for row in measured_laws("curves")} == {"gemm", "read", "copy", "add", "launch"}


def test_a_curve_goes_through_its_points_and_grows_with_the_work_beyond_them() -> None:
    points = [(1, 64, 64, 1e-5), (8, 64, 64, 2e-5), (1, 512, 512, 1e-4), (8, 512, 512, 8e-4)]
    curve = curve_of(Law("gemm", "this-machine", values_of(points), 1, 1, 4, "", ""))
    for m, k, n, seconds in points:
        assert curve.seconds(m, k, n) == pytest.approx(seconds)
    assert curve.seconds(16, 512, 512) == pytest.approx(16e-4)
    assert curve.seconds(8, 1024, 1024) == pytest.approx(4 * 8e-4)
    assert 1e-5 < curve.seconds(1, 128, 128) < 1e-4
    assert 1e-4 < curve.seconds(3, 512, 512) < 8e-4
    # what a column takes hangs on its depth: many short columns take what short ones take, however many bytes they are
    assert curve.seconds(1, 64, 4096) == pytest.approx(64 * 1e-5)
    assert curve.seconds(1, 512, 64) == pytest.approx(1e-4 / 8)


# As a command


def test_the_answer_is_a_report_json_and_a_chart(tmp_path: Path) -> None:
    answer = measured()
    text = answer_text(answer)
    assert "kept as this-machine" in text and "100 GFLOP/s" in text and "20 GB/s" in text
    again = json.loads(answer.to_json())
    assert again["peaks"][0]["flops"]["kind"] == "measured" and again["stored"] is True
    charts.save(machine_chart(answer), tmp_path / "roof.svg")
    assert "measured" in (tmp_path / "roof.svg").read_text()


def test_a_disturbed_run_exits_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([measured(quiet(0.3)), measured(quiet(0.3), force=True)])
    monkeypatch.setattr("narrows.answers.measure.measure_machine", lambda **_: next(answers))
    code, out, _ = cli("measure", "machine")
    assert code == 1 and "not quiet: other processes took 30 %" in out
    assert cli("measure", "machine", "--force")[0] == 0


def test_a_whole_run_in_a_process_of_its_own_measures_and_leaves_no_scratch(
    narrows: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    store = str(tmp_path / "store" / "machine.json")
    done = narrows(
        *("measure", "machine", "--device", "cpu", "--seconds", "5", "--scratch", str(folder), "--force", "--json"),
        NARROWS_MACHINE=store,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["peaks"] and answer["bandwidth"]["value"] > 0 and answer["disk"]["size"] > 0
    assert os.listdir(folder) == [] and os.path.exists(store)


@pytest.mark.parametrize("later", [0, 1.5, 4])
def test_an_interruption_at_any_moment_leaves_nothing(later: float, tmp_path: Path) -> None:
    folder, store = tmp_path / "scratch", tmp_path / "machine.json"
    folder.mkdir()
    store.write_text("as it was")
    arguments = ("measure", "machine", "--device", "cpu", "--seconds", "20", "--scratch", str(folder), "--force")
    process = subprocess.Popen(
        [sys.executable, "-m", "narrows", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NARROWS_LANG": "en", "NARROWS_MACHINE": str(store)},
    )
    # the interpreter itself is up once numpy is being loaded
    while process.poll() is None and "numpy" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.02)
    time.sleep(later)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.decode().strip() == "interrupted" and out == b""
    assert os.listdir(folder) == [] and store.read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["machine.json", "scratch"]


def test_an_interruption_that_a_library_swallows_ends_the_next_step() -> None:
    from narrows.cli.measure import _watching

    before = signal.getsignal(signal.SIGINT)
    with _watching() as told:
        told(0.1, Text("first"))
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            told(0.2, Text("second"))
    assert signal.getsignal(signal.SIGINT) is before


def test_measuring_is_not_loaded_by_other_commands() -> None:
    code = (
        "import sys; from narrows.answers.fit import fit; fit('llama-2-7b', 'l40s', max_len=512);"
        "print([m for m in sys.modules if m.startswith('narrows.measure') or m in ('numpy', 'torch')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_fake_is_a_library() -> None:
    library: Library = Fake()
    assert library.device == "cpu"


def test_conditions_encode() -> None:
    one = Watch(quiet()).stop()
    assert msgspec.structs.asdict(one)["processors"] == one.processors
    assert isinstance(one, Conditions)


# Devices through torch, by a stand-in: what is called is what is checked


class Tensor:
    def __init__(self, log: list[str], place: str) -> None:
        self.log, self.place = log, place

    def copy_(self, other: Tensor, non_blocking: bool = False) -> None:
        self.log.append(f"{other.place} to {self.place}{' without waiting' if non_blocking else ''}")


def stand_in(log: list[str], devices: int, pinned: bool = True) -> Any:
    """What the probes of devices use of torch, with `devices` of CUDA."""

    def ones(size: int, dtype: Any = None, device: str = "host", pin_memory: bool = False) -> Tensor:
        if pin_memory and not pinned:
            raise RuntimeError("cannot pin memory")
        return Tensor(log, device + (" pinned" if pin_memory else ""))

    cuda = SimpleNamespace(
        is_available=lambda: devices > 0,
        device_count=lambda: devices,
        synchronize=lambda device=None: log.append(f"wait for {device}"),
        get_device_capability=lambda device: (9, 0),
        mem_get_info=lambda device: (70 * GIB, 80 * GIB),
        nccl=SimpleNamespace(all_reduce=lambda tensors: log.append(f"sum of {len(tensors)}")),
    )
    return SimpleNamespace(
        __version__="2.9.0+cu130",
        cuda=cuda,
        backends=SimpleNamespace(),
        version=SimpleNamespace(hip=None),
        inference_mode=None,
        ones=ones,
        uint8="uint8",
        bfloat16="bfloat16",
    )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    log: list[str] = []
    for module in ("machine", "torch_library", "devices"):
        monkeypatch.setattr(f"narrows.measure.{module}.import_torch", lambda: stand_in(log, 4))
    return log


def test_an_accelerator_is_measured_before_the_processor_and_all_of_its_kind_are_known(cuda: list[str]) -> None:
    assert chosen(None) == ("cuda:0", ["cuda:0", "cuda:1", "cuda:2", "cuda:3"])
    assert chosen("cuda:2")[0] == "cuda:2"
    assert chosen("cuda")[0] == "cuda:0"
    assert chosen("cpu") == ("cpu", ["cpu"])
    with pytest.raises(BadInput, match="no device 'cuda:9'"):
        chosen("cuda:9")


def test_host_and_device_are_copied_both_ways_pinned_and_pageable(
    cuda: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    library = Torch("cuda:0")
    assert library.name == "torch 2.9.0" and "fp8" in library.precisions
    # the clock only moves where something is waited for
    monkeypatch.setattr(library, "settle", fake.taking(1e-3))
    found = transfers(library, Pace(fake.clock, 10), sizes=(4 * MIB,))
    assert [(one.direction, one.pinned) for one in found] == [
        ("host to device", True),
        ("device to host", True),
        ("host to device", False),
        ("device to host", False),
    ]
    assert {
        "host pinned to cuda:0 without waiting",
        "cuda:0 to host pinned without waiting",
        "host to cuda:0",
        "cuda:0 to host",
    } == set(cuda)
    assert all(one.bandwidth.value > 0 for one in found)


def test_a_host_that_cannot_pin_memory_is_measured_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.measure.torch_library.import_torch", lambda: stand_in([], 1, pinned=False))
    fake = Fake()
    library = Torch("cuda:0")
    monkeypatch.setattr(library, "settle", fake.taking(1e-3))
    assert {one.pinned for one in transfers(library, Pace(fake.clock, 10), sizes=(MIB,))} == {False}


def test_all_devices_are_summed_over_and_waited_for(cuda: list[str]) -> None:
    found = all_reduces(["cuda:0", "cuda:1"], Pace(time.perf_counter, 1), sizes=(8 * KIB,))
    assert [(one.ranks, one.message) for one in found] == [(2, 8 * KIB)]
    assert cuda.count("wait for cuda:0") == cuda.count("wait for cuda:1") > 0
    assert "sum of 2" in cuda
    assert all_reduces(["cuda:0"], Pace(time.perf_counter, 1)) == []


def test_the_memory_of_a_device_is_that_of_its_driver(cuda: list[str]) -> None:
    assert Torch("cuda:0").free_memory() == (80 * GIB, 70 * GIB)


def test_torch_multiplies_reads_and_copies_on_the_processor_as_on_a_device() -> None:
    """The same code with device='cpu', wherever torch is installed."""
    pytest.importorskip("torch")
    library = Torch("cpu")
    assert {"fp32", "bf16"} <= set(library.precisions)
    for precision in library.precisions:
        library.linear(32, 64, 48, precision, copies=2 if precision == "fp32" else 1)()
    for run in (*library.reading(MIB).values(), library.copying(MIB), library.adding(MIB), library.dispatch()):
        run()
    library.transfer(MIB, pinned=False, to_device=True)()
    library.touching(bytearray(8192))()
    library.settle()
    library.close()


def test_the_roofline_of_this_machine_goes_by_its_own_curve() -> None:
    measured()
    spec = load_model("qwen2.5-0.5b")
    deployment = deploy(spec, find_accelerator("this-machine"), max_length=512)
    costs = Costs(deployment)
    product = next(
        one
        for one in plan_of(deployment).operators(Batch.prefill(256))
        if isinstance(one.shape, Gemm) and one.shape.m > 1
    )
    row = measured_row(product.precision)
    assert row is not None and isinstance(product.shape, Gemm)
    curve = curve_of(row)
    assert costs(product).time == pytest.approx(curve.seconds(product.shape.m, product.shape.k, product.shape.n))
    # tables over rows ask with arrays
    assert StepTime(deployment).step(Batch.decode(4, 100)) > 0


def test_the_interval_of_a_curve_is_how_well_its_points_predict_each_other() -> None:
    measured()
    row = measured_row("fp32")
    assert row is not None
    # the fake's curve turns once, between two rows; elsewhere it is straight
    assert 0.8 < row.low < 1 <= row.high < 1.05


def test_memory_that_a_process_may_not_take_is_not_free(tmp_path: Path) -> None:
    script = "from narrows.measure.limits import memory; print(memory()[1])"
    most = 600 * MIB
    done = subprocess.run(
        ["sh", "-c", f'ulimit -v {most // 1024}; exec "$@"', "sh", sys.executable, "-c", script],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert 0 < int(done.stdout) < most


def test_what_libraries_raise_where_memory_ends_is_a_sentence() -> None:
    for error in (MemoryError("x"), OSError(errno.ENOMEM, "y"), RuntimeError("can't start new thread")):
        with pytest.raises(BadInput, match="may take no more memory"), limits.enough_memory():
            raise error
    with pytest.raises(RuntimeError, match="sizes"), limits.enough_memory():
        raise RuntimeError("sizes differ")
