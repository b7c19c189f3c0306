"""The laws of loading: readers add up, faults cost latency, stages overlap; rates come out of public records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from narrows.accuracy import loading as scoreboard
from narrows.accuracy.loading_fit import fit as fit_rates
from narrows.accuracy.loading_records import loading_cases, loading_records
from narrows.hardware.storage import Storage, find_instance, find_storage, instances, storages
from narrows.loading.host_memory import from_host_memory
from narrows.loading.loaders import find_loader, loader, loaders
from narrows.loading.path import PAGE, Moved, Scenario, concurrent, link_rate, overlapped, transfer, windowed
from narrows.loading.place import look_up
from narrows.loading.plan import Settings, predict
from narrows.loading.rates import READAHEAD, Rate, shipped
from narrows.loading.remedies import remedies, step_by_step
from narrows.loading.start import fixed_stages
from narrows.text import BadInput
from scripts.fit_loading import TARGET, coefficients_text

GB = 10**9
RATES = shipped()
positive = st.floats(1e6, 1e12)


def scenario(storage: str = "gp3", by: str = "safetensors", **changes: object) -> Scenario:
    base = Scenario(storage=find_storage(storage), loader=loader(by), bytes=14 * GB, resident=14 * GB, link=31.5e9)
    return replace(base, **changes)


def settings(one: Scenario, **changes: object) -> Settings:
    return replace(Settings(scenario=one, engine="vllm", version="0.32", layers=32, graphs=True), **changes)


def stage(one: Scenario, name: str) -> Moved:
    return next(moved for moved in transfer(one, RATES).moved if moved.name == name)


# ---------------------------------------------------------------- laws


def test_the_chapters_pass_from_host_memory_takes_0_56_s_against_16_ms() -> None:
    found = from_host_memory(14 * GB, 32, 31.5e9, 864e9, RATES, generation=4)
    assert round(found.seconds, 2) == 0.56
    assert round(found.device_pass * 1e3) == 16
    assert found.rate.value == pytest.approx(25 * GB, rel=0.02)
    assert found.per_layer == pytest.approx(found.seconds / 32)


def test_the_concurrency_law_gives_the_published_table_within_a_fifth() -> None:
    rows = scoreboard.concurrency_check()
    assert len(rows) == 10
    assert {row.record.split()[1] for row in rows} == {"gp3", "io2", "s3"}
    assert max(abs(row.error) for row in rows) < 0.2


@given(st.integers(1, 500), positive, positive)
def test_more_readers_are_never_slower_and_never_exceed_the_storage(readers: int, stream: float, top: float) -> None:
    assert concurrent(readers, stream, top) <= concurrent(readers + 1, stream, top) <= top


def test_faults_of_single_pages_give_the_measured_21_mb_per_second() -> None:
    # 535,839 faults in 103 s on a virtual disk that a reader with read-ahead gets more than a GB/s from
    found = windowed(1.25e9, 2.06e9, PAGE, RATES["fault"].value)
    assert found == pytest.approx(0.0213e9, rel=0.05)


@given(st.floats(1e7, 1e9), st.floats(1.1, 100), st.sampled_from([PAGE, READAHEAD, 2**20, 2**24]))
def test_a_longer_window_is_never_slower_and_never_exceeds_the_storage(stream: float, more: float, window: int) -> None:
    top = stream * more
    now, longer = (windowed(stream, top, size, 190e-6) for size in (window, 2 * window))
    assert now <= longer * (1 + 1e-9)
    assert longer <= top * (1 + 1e-9)


@given(stream=st.floats(1e7, 1e9), more=st.floats(1.1, 100))
def test_the_kernels_own_window_gives_back_what_one_reader_has(stream: float, more: float) -> None:
    assert windowed(stream, stream * more, READAHEAD, 190e-6) == pytest.approx(stream)


@given(st.lists(st.tuples(st.integers(10**6, 10**12), positive), min_size=1, max_size=5))
def test_overlapped_stages_take_at_least_the_longest_and_at_most_all(stages: list[tuple[int, float]]) -> None:
    moved = [Moved("read", size, Rate(rate, rate, rate, 1), "storage") for size, rate in stages]
    alone = [one.seconds for one in moved]
    assert max(alone) <= overlapped(moved) <= sum(alone) * (1 + 1e-9)


def test_ranks_that_map_files_read_them_once_and_ranks_that_stream_from_a_store_read_all() -> None:
    shared, streamed = scenario("gp3", ranks=4), scenario("s3", "runai", ranks=4)
    assert stage(shared, "read").bytes == 14 * GB
    assert stage(scenario("gp3", "runai", ranks=4), "read").bytes == 14 * GB
    assert stage(streamed, "read").bytes == 4 * 14 * GB
    assert stage(scenario("s3", "runai-distributed", ranks=4), "read").bytes == 14 * GB


def test_a_loader_that_reads_files_waits_for_the_download_and_one_that_streams_does_not() -> None:
    waits = transfer(scenario("s3", "prefetch", target=find_storage("nvme")), RATES)
    streams = transfer(scenario("s3", "runai"), RATES)
    assert [one.name for one in waits.moved] == ["download", "host_to_device"]
    assert waits.time > stage(scenario("s3", "prefetch", target=find_storage("nvme")), "download").seconds
    assert "download" not in [one.name for one in streams.moved]


def test_the_hub_is_no_store_that_loaders_stream_from() -> None:
    assert scenario("hub", "runai").downloads


def test_a_machine_that_lets_less_through_decides() -> None:
    limited = stage(scenario("io2", "runai", instance=find_instance("g5.12xlarge")), "read")
    assert (limited.limit, limited.rate.value) == ("machine", 2e9)
    assert stage(scenario("io2", "runai"), "read").limit == "storage"


def test_weights_in_the_page_cache_are_not_read_again() -> None:
    assert [one.name for one in transfer(scenario("efs", cached=1.0), RATES).moved] == ["host_to_device"]
    assert stage(scenario("efs", cached=0.75), "read").bytes == 14 * GB // 4


def test_a_loader_that_reads_past_the_page_cache_gains_nothing_from_it() -> None:
    assert stage(scenario("nvme", "fastsafetensors", cached=1.0), "read").bytes == 14 * GB
    downloaded = scenario("s3", "fastsafetensors", target=find_storage("nvme"))
    assert stage(downloaded, "read").rate.value == find_storage("nvme").bandwidth


def test_copies_from_pageable_memory_are_no_faster_than_from_pinned() -> None:
    for paper in (2e9, 15.75e9, 31.5e9, 63e9):
        assert link_rate(paper, False, RATES).value <= link_rate(paper, True, RATES).value <= paper


@pytest.mark.parametrize(
    ("one", "narrow", "limit"),
    [
        (scenario("gp3"), "read", "readers"),
        (scenario("gp3", bandwidth=125 * 2**20), "read", "storage"),
        (scenario("io2", "runai", bytes=2000 * GB, instance=find_instance("g5.12xlarge")), "read", "machine"),
        (scenario("hub", target=find_storage("nvme")), "download", "readers"),
        (scenario("nvme", readahead=PAGE), "read", "readers"),
        (scenario("s3", "tensorizer", bytes=100 * GB), "read", "processor"),
        (scenario("tmpfs", bytes=900 * GB, resident=900 * GB), "host_to_device", "loader"),
        (scenario("tmpfs", bytes=900 * GB, resident=900 * GB, link=1e9), "host_to_device", "link"),
        (scenario("tmpfs", "torch", bytes=500 * GB), "host_allocation", "memory"),
        (scenario("tmpfs"), "compile", None),
    ],
)
def test_the_narrow_stage_and_what_bounds_it_in_constructed_cases(
    one: Scenario, narrow: str, limit: str | None
) -> None:
    found = predict(settings(one), RATES)
    assert (found.narrow.name, getattr(found.narrow, "limit", None)) == (narrow, limit)


def test_a_start_without_graphs_neither_compiles_nor_captures() -> None:
    whole, eager = (predict(settings(scenario(), graphs=graphs), RATES) for graphs in (True, False))
    assert "graph_capture" not in [one.name for one in eager.fixed]
    assert eager.total < whole.total
    assert predict(settings(scenario(), compiled=True), RATES).total < whole.total


@pytest.mark.parametrize(
    ("old", "new"), [("0.10.0", "0.10.1"), ("0.8.5.post1", "0.10.2rc1"), ("0.9.2", ""), ("0.9", "0.19.2rc1.dev134+g")]
)
def test_graphs_are_captured_faster_since_the_collector_of_garbage_stands_still(old: str, new: str) -> None:
    def captured(version: str) -> float:
        found = fixed_stages(shipped(), "vllm", version, 32, ranks=1, graphs=True, cached=False)
        return next(one.seconds for one in found if one.name == "graph_capture")

    assert captured(old) > 3 * captured(new)


def test_the_total_is_the_sum_of_its_stages_where_nothing_overlaps() -> None:
    found = predict(settings(scenario()), RATES)
    assert found.total == pytest.approx(sum(one.seconds for one in found.stages))
    assert found.low < found.total < found.high


# ---------------------------------------------------------------- remedies


@pytest.mark.parametrize("storage", ["gp3", "efs", "s3", "hub", "nvme", "tmpfs", "io2"])
def test_every_remedy_saves_what_it_says_and_the_greatest_comes_first(storage: str) -> None:
    one = settings(scenario(storage, ranks=2, target=find_storage("nvme")))
    before = predict(one, RATES)
    found = remedies(one, RATES, before, 0.5)
    assert all(remedy.saves > 0 and remedy.total + remedy.saves == pytest.approx(before.total) for remedy in found)
    saved = [round(remedy.saves, 1) for remedy in found]
    assert saved == sorted(saved, reverse=True)


def test_steps_are_taken_one_after_the_other() -> None:
    one = settings(scenario("gp3"))
    before = predict(one, RATES)
    steps = step_by_step(one, RATES, before)
    totals = [before.total, *(step.total for step in steps)]
    assert len(steps) >= 2
    assert totals == sorted(totals, reverse=True)
    assert sum(step.saves for step in steps) == pytest.approx(before.total - totals[-1])
    assert not {"--enforce-eager", "--from tmpfs"} & {step.change for step in steps}


def test_no_faster_disk_is_sold_to_a_single_reader() -> None:
    one = settings(scenario("gp3"))
    found = [remedy.change for remedy in remedies(one, RATES, predict(one, RATES))]
    assert not any(change.startswith("--bandwidth") for change in found)
    assert any("prefetch" in change for change in found)


def test_a_full_volume_is_told_to_be_provisioned_higher() -> None:
    one = settings(scenario("gp3", "prefetch", bandwidth=125 * 2**20))
    assert any(remedy.change.startswith("--bandwidth") for remedy in remedies(one, RATES, predict(one, RATES)))


# ---------------------------------------------------------------- facts


def test_every_storage_machine_loader_and_rate_says_where_it_is_from() -> None:
    sources = [one.source for one in storages()] + [one.source for one in instances()]
    assert all(sources + [one.source for one in loaders()] + [one.source for one in RATES.values()])
    ids = [name for one in storages() for name in (one.id, *one.aliases)]
    assert len(ids) == len(set(ids))
    names = [name for one in loaders() for name in (one.id, *one.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("one", storages(), ids=lambda one: one.id)
def test_every_storage_can_be_loaded_from_by_every_loader(one: Storage) -> None:
    assert one.low <= one.bandwidth <= one.high
    for by in loaders():
        found = transfer(scenario(one.id, by.id, ranks=2, target=find_storage("nvme")), RATES)
        assert 0 < found.time <= found.sequential
        assert found.pipelined <= found.sequential


def test_names_of_storage_are_taken_as_people_write_them() -> None:
    assert find_storage("EBS_gp3").id == "gp3"
    assert find_storage(" Local SSD ").id == "nvme"
    with pytest.raises(BadInput, match="gp3, gp2, io2"):
        find_storage("floppy")


def test_an_engine_has_only_its_own_loaders() -> None:
    assert find_loader(None, "llama.cpp").id == "gguf-mmap"
    assert find_loader("no-mmap", "llama.cpp").id == "gguf"
    with pytest.raises(BadInput, match="gguf-mmap, gguf"):
        find_loader("runai", "llama.cpp")
    with pytest.raises(BadInput, match="safetensors, prefetch"):
        find_loader("hub", "vllm")


# ---------------------------------------------------------------- what is fitted


def test_the_rates_that_are_shipped_are_those_of_the_script() -> None:
    assert TARGET.read_bytes() == coefficients_text(), "run `python scripts/fit_loading.py`"


def test_no_rate_depends_on_a_record_kept_apart() -> None:
    cases = loading_cases()[0]
    taught = [case for case in cases if case.record.split == "fit"]
    assert len(taught) < len(cases)
    apart = {case.record.source for case in cases if case.record.split == "test"}
    used = {source for rate in fit_rates(taught, [r for r in loading_records() if r.split == "fit"]).values()
            for source in rate.source.split("; ")}  # fmt: skip
    assert not {source.removeprefix("https://github.com/") for source in apart} & used


def test_sources_left_out_are_predicted_at_half_the_error_of_bytes_over_bandwidth() -> None:
    found = scoreboard.loading_scores()
    narrows, storage, machine = found.scores
    assert narrows.n >= 60
    assert narrows.sources >= 10
    assert narrows.median <= 0.5 * min(storage.median, machine.median)
    assert narrows.median < 0.32
    assert 0.7 <= found.interval.coverage <= 0.92


# ---------------------------------------------------------------- local paths


def test_a_path_tells_its_size_and_what_of_it_is_in_the_page_cache(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(os.urandom(3 * 2**20))
    (tmp_path / "config.json").write_text("{}")
    place = look_up(str(tmp_path))
    assert place.bytes == 3 * 2**20
    assert place.cached is None or place.cached == 1.0  # just written
    assert place.storage in storages()


def test_looking_a_path_up_brings_nothing_into_the_page_cache(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(os.urandom(3 * 2**20))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    first = look_up(str(tmp_path)).cached
    assert look_up(str(tmp_path)).cached == first


def test_a_checkpoint_stored_twice_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"1" * 1000)
    (tmp_path / "pytorch_model.bin").write_bytes(b"2" * 1000)
    assert look_up(str(tmp_path)).bytes == 1000


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no weights"):
        look_up(str(tmp_path))
