"""Directories as downloaded: which files are the checkpoint, and what is said of those that are not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from narrows.models.stored import Inventory
from narrows.models.stored.directory import read_directory
from narrows.text import BadInput

from .safetensors_files import Tensors, write, write_sharded

ONE: Tensors = {"a.weight": ("BF16", (2, 3)), "b.weight": ("F32", (4,))}
TWO: Tensors = {"c.weight": ("F16", (5,))}


def read(folder: Path) -> Inventory:
    found = read_directory(str(folder))
    assert found is not None
    return found


def test_a_directory_without_weights_holds_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert read_directory(str(tmp_path)) is None


def test_one_file_is_the_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", ONE)
    found = read(tmp_path)
    assert (found.files, found.bytes) == (("model.safetensors",), 28)
    assert found.missing == found.left_out == ()


def test_an_index_and_its_shards_are_read_and_counted(tmp_path: Path) -> None:
    total = write_sharded(tmp_path, [ONE, TWO])
    told: list[tuple[int, int]] = []
    found = read_directory(str(tmp_path), lambda done, files: told.append((done, files)))
    assert found is not None
    assert found.bytes == total == 38
    assert [one.file for one in found.tensors] == ["model-00001-of-00002.safetensors"] * 2 + [
        "model-00002-of-00002.safetensors"
    ]
    assert told == [(1, 2), (2, 2)]
    files = sum(os.path.getsize(tmp_path / name) for name in found.files)
    assert found.header_bytes == files - total


def test_shards_without_an_index_are_one_checkpoint(tmp_path: Path) -> None:
    total = write_sharded(tmp_path, [ONE, TWO], index=False)
    assert read(tmp_path).bytes == total


def test_several_files_without_an_index_are_one_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "layers.safetensors", ONE)
    write(tmp_path / "rest.safetensors", TWO)
    assert read(tmp_path).bytes == 38


def test_consolidated_files_count_where_nothing_else_is_there(tmp_path: Path) -> None:
    write(tmp_path / "consolidated.safetensors", ONE)
    assert read(tmp_path).bytes == 28


@pytest.mark.parametrize("stem", ["consolidated", "consolidated.00"])
def test_the_same_weights_in_two_layouts_count_once(stem: str, tmp_path: Path) -> None:
    write_sharded(tmp_path, [ONE, TWO])
    write(tmp_path / f"{stem}.safetensors", {"layers.0.wq": ("BF16", (99,))})
    found = read(tmp_path)
    assert found.bytes == 38
    assert found.left_out == (f"{stem}.safetensors",)


def test_consolidated_shards_beside_the_others_count_once(tmp_path: Path) -> None:
    write_sharded(tmp_path, [ONE, TWO])
    write_sharded(tmp_path, [ONE, ONE], stem="consolidated")
    found = read(tmp_path)
    assert found.bytes == 38
    assert len(found.left_out) == 2


def test_an_adapter_is_no_part_of_the_model(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", ONE)
    write(tmp_path / "adapter_model.safetensors", TWO)
    assert read(tmp_path).bytes == 28


@pytest.mark.parametrize("index", [True, False])
def test_missing_shards_are_named_and_nothing_is_summed(index: bool, tmp_path: Path) -> None:
    write_sharded(tmp_path, [{f"{n}.weight": ("U8", (1,))} for n in range(4)], index=index)
    for number in (2, 4 if index else 3):
        (tmp_path / f"model-0000{number}-of-00004.safetensors").unlink()
    found = read(tmp_path)
    assert found.missing == tuple(f"model-0000{n}-of-00004.safetensors" for n in (2, 4 if index else 3))
    assert found.tensors == ()


def test_numbers_are_written_as_the_other_shards_write_theirs(tmp_path: Path) -> None:
    write(tmp_path / "model-00001-of-000163.safetensors", ONE)
    assert read(tmp_path).missing[0] == "model-00002-of-000163.safetensors"


def test_pointers_of_git_lfs_are_missing_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert read(tmp_path).missing == ("model.safetensors",)


def test_a_clone_without_git_lfs_is_a_checkpoint_whose_files_are_missing(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    for name in (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ):
        (tmp_path / name).write_text(pointer)
    assert len(read(tmp_path).missing) == 2


def test_a_link_into_an_emptied_cache_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / "0123")
    assert read(tmp_path).missing == ("model.safetensors",)


def test_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    write(tmp_path / "blobs" / "0123", ONE)
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / "0123")
    assert read(tmp_path).bytes == 28


def test_an_index_left_over_from_another_layout_is_passed_over(tmp_path: Path) -> None:
    index = {"weight_map": {"a.weight": "model-00001-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write(tmp_path / "gptq_model-4bit-128g.safetensors", TWO)
    found = read(tmp_path)
    assert (found.files, found.missing) == (("gptq_model-4bit-128g.safetensors",), ())


def test_what_index_and_files_disagree_on_is_counted(tmp_path: Path) -> None:
    write_sharded(tmp_path, [ONE, TWO])
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    del index["weight_map"]["a.weight"]
    index["weight_map"]["gone.weight"] = "model-00002-of-00002.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read(tmp_path)
    assert (found.unnamed, found.unstored, found.bytes) == (1, 1, 38)


def test_a_tensor_in_two_files_counts_once(tmp_path: Path) -> None:
    write_sharded(tmp_path, [ONE, {**TWO, "b.weight": ("F32", (4,))}])
    found = read(tmp_path)
    assert (found.twice, found.bytes) == (1, 38)


@pytest.mark.parametrize(
    "file", ["../../etc/passwd.safetensors", "/etc/x.safetensors", "a\\b.safetensors", "config.json"]
)
def test_an_index_reaches_no_other_folder(file: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(BadInput, match="names a file that cannot stand beside it"):
        read(tmp_path)


@pytest.mark.parametrize(
    "index", [b"", b"[]", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', b"[" * 100_000, b"\xff"]
)
def test_a_broken_index_is_refused(index: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(index)
    with pytest.raises(BadInput, match=r"'.*index.json' is no index of safetensors files"):
        read(tmp_path)


def test_a_huge_index_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors.index.json").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(BadInput, match="larger than any index"):
        read(tmp_path)


def test_a_number_of_shards_beyond_any_is_not_laid_out(tmp_path: Path) -> None:
    write(tmp_path / "model-00001-of-999999.safetensors", ONE)
    assert read(tmp_path).files == ("model-00001-of-999999.safetensors",)
