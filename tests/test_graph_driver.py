"""CUDA graphs take several times as much with drivers before R550, so that a start can fail that usually does not."""

from __future__ import annotations

import io

import pytest

from narrows.answers.fit import fit
from narrows.deployment import deploy
from narrows.diagnosis.deployed import deployed
from narrows.hardware import find_accelerator
from narrows.memory import reserve
from narrows.memory.reserve import Reserve
from narrows.models import load_model
from narrows.observe import observe
from narrows.units import GIB


def kept(driver: int | None, version: str = "0.9.2", model: str = "Qwen3-8B", gpu: str = "a100-sxm-40gb") -> Reserve:
    return reserve(deploy(load_model(model), find_accelerator(gpu), engine=f"vllm=={version}", driver=driver))


def test_an_old_driver_takes_three_times_as_much_for_graphs() -> None:
    """vllm-project/vllm#5517: 3.81 and 3.79 GiB against 1.14 on A10G and L4."""
    old, new, unknown = kept(535), kept(550), kept(None)
    assert old.graphs / new.graphs == pytest.approx(3.81 / 1.1367, rel=0.01)
    assert unknown.graphs == new.graphs
    assert (unknown.graphs_low, unknown.graphs_high) == (new.graphs_low, old.graphs_high)
    assert new.graphs_low < new.graphs < new.graphs_high < old.graphs


def test_a_server_with_an_old_driver_lies_within_what_is_said_where_no_driver_is_known() -> None:
    """Qwen3-8B, 0.9.2, driver 535: graphs took 2.24 GiB, and 0.43 are predicted for a newer one."""
    assert kept(None).graphs_low < 2.24 * GIB < kept(None).graphs_high * 1.3
    assert kept(535).graphs_low < 2.24 * GIB


def test_versions_with_graphs_in_their_share_come_with_a_new_driver() -> None:
    assert kept(535, "0.24").graphs == kept(None, "0.24").graphs == kept(580, "0.24").graphs


def test_a_start_says_where_an_old_driver_would_fail_it() -> None:
    found = fit("Qwen3-8B", "rtx-3090", engine="vllm==0.9.2", max_len=8192, gpu_memory_utilization=0.94).candidates[0]
    assert found.starts == "starts, but may fail at graph capture"
    assert found.fits
    assert found.cuda_graphs.low is not None
    assert found.cuda_graphs.high is not None
    assert found.cuda_graphs.low < found.terms.graphs == found.cuda_graphs.value < found.cuda_graphs.high
    assert fit("Qwen3-8B", "l40s", engine="vllm==0.9.2", max_len=8192).candidates[0].starts == "starts"


@pytest.mark.parametrize(
    ("line", "driver"),
    [
        ("Nvidia driver version: 535.129.03", 535),
        ("Nvidia driver version        : 580.159.03", 580),
        ("| NVIDIA-SMI 545.23.08       Driver Version: 545.23.08    CUDA Version: 12.3     |", 545),
        ("Nvidia driver version: Could not collect", None),
    ],
)
def test_a_log_tells_its_driver(line: str, driver: int | None) -> None:
    log = (
        f"{line}\nINFO 07-01 10:00:00 [core.py:69] Initializing a V1 LLM engine (v0.9.2) with config: "
        "model='Qwen/Qwen3-8B', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, \n"
    )
    made = deployed(observe(io.BytesIO(log.encode()))[-1], gpu="rtx-3090").deployment
    assert made is not None
    assert made.driver == driver
