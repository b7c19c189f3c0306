"""What engines run on which device is what their documentation says; no prescription goes beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import fit, roofline
from narrows.deployment import deploy
from narrows.deployment.runs import unfit, wanting
from narrows.engines import find_engine
from narrows.engines.support import What, platform_of, support
from narrows.hardware import accelerators, find_accelerator
from narrows.models import load_model
from narrows.precision import FORMATS, Scheme
from narrows.precision.floats import Fp8Scaled, Mxfp4, Nvfp4
from narrows.precision.integers import Awq, Int8Scaled
from narrows.step.arithmetic import of_scheme, plain
from narrows.text import BadInput


def way(engine: str, what: What, gpu: str) -> str | None:
    found = support(find_engine(engine), what, find_accelerator(gpu))
    return None if found is None else found.way


@pytest.mark.parametrize(
    ("engine", "what", "gpu", "expected"),
    [
        ("vllm", "device", "v100-sxm2-32gb", "none"),
        ("vllm==0.14", "device", "v100-sxm2-32gb", "native"),
        ("vllm", "device", "t4", "native"),
        ("vllm", "device", "gaudi3", "plugin"),
        ("llama.cpp", "device", "v100-sxm2-32gb", "native"),
        ("llama.cpp", "device", "tpu-v5e", "none"),
        ("vllm", "fp8", "h100-sxm", "native"),
        ("vllm", "fp8", "l4", "native"),
        ("vllm", "fp8", "mi300x", "native"),
        ("vllm", "fp8", "a100-sxm-80gb", "weight-only"),
        ("vllm", "fp8", "t4", "weight-only"),
        ("vllm==0.14", "fp8", "t4", "none"),
        ("vllm", "fp8", "v100-sxm2-32gb", "none"),
        ("vllm", "fp8", "mi250x", "none"),
        ("vllm", "int8", "h100-sxm", "native"),
        ("vllm", "int8", "b200-sxm", "none"),
        ("vllm", "int8", "rtx-5090", "none"),
        ("vllm", "awq", "v100-sxm2-32gb", "none"),
        ("vllm", "gptq", "v100-sxm2-32gb", "weight-only"),
        ("vllm", "nvfp4", "b200-sxm", "native"),
        ("vllm", "nvfp4", "h100-sxm", "weight-only"),
        ("sglang", "nvfp4", "h100-sxm", "none"),
        ("vllm", "mxfp4", "t4", "none"),
        ("vllm", "fp8 kv", "a10", "native"),
        ("vllm", "fp8 kv", "v100-sxm2-32gb", "none"),
        ("vllm", "fp8 kv", "epyc-9654", "none"),
        ("vllm", "fp8 kv", "mi250x", None),
        ("vllm", "speculative decoding", "epyc-9654", "none"),
        ("vllm", "awq", "epyc-9654", "weight-only"),
        ("vllm", "awq", "graviton4", None),
        ("llama.cpp", "fp8 kv", "graviton4", "native"),
    ],
)
def test_support_is_what_the_documentation_says(engine: str, what: What, gpu: str, expected: str | None) -> None:
    assert way(engine, what, gpu) == expected


def test_every_device_is_some_platforms() -> None:
    for device in accelerators():
        assert support(find_engine("vllm"), "device", device) is not None or device.vendor == "amd", device.id
    assert {platform_of(one) for one in accelerators()} == {
        "cuda",
        "rocm",
        "xpu",
        "gaudi",
        "tpu",
        "neuron",
        "metal",
        "cpu",
        "arm",
    }


SCHEMES: tuple[tuple[What, Scheme], ...] = (
    ("fp8", Fp8Scaled()),
    ("int8", Int8Scaled()),
    ("awq", Awq(4, 128)),
    ("nvfp4", Nvfp4()),
    ("mxfp4", Mxfp4()),
)


@pytest.mark.parametrize(("what", "scheme"), SCHEMES)
def test_steps_multiply_weights_as_such_where_engines_do(what: What, scheme: Scheme) -> None:
    dtype, engine = FORMATS["bfloat16"], find_engine("vllm")
    for device in accelerators():
        fact = support(engine, what, device)
        if fact is not None and fact.way in ("native", "weight-only") and platform_of(device) in ("cuda", "rocm"):
            native = of_scheme(scheme, device, dtype) != plain(device, dtype)
            assert native == (fact.way == "native"), device.id


def prescribed(model: str, gpu: str, **options: Any) -> dict[str, str]:
    found = roofline(model, gpu, prompt=1024, context=2048, **options).prescriptions
    return {one.change: str(one.text) for one in found}


def test_weights_that_are_unpacked_are_not_said_to_be_multiplied_as_such() -> None:
    ampere, hopper = (prescribed("llama-3.1-8b", gpu) for gpu in ("a100-sxm-80gb", "h100-sxm"))
    assert "unpacked for products in bf16" in ampere["--precision fp8"]
    assert "FLOPs cost what they did" in ampere["--precision fp8"]
    assert "matrix products in FP8" in hopper["--precision fp8"]
    assert "unpacked for products in bf16" in hopper["--precision int4"]


def test_file_types_of_llama_cpp_are_unpacked() -> None:
    plain = roofline("llama-3.2-1b", "l40s", prompt=64, context=64, engine="llama.cpp")
    assert not any("unpacked" in str(text) for text in plain.assumptions)
    found = prescribed("llama-3.1-8b", "apple-m3-ultra", engine="llama.cpp", memory=100 * 2**30, batch=1)
    assert "unpacked for products in fp16" in found["--precision int4"]


def test_nothing_is_prescribed_that_the_engine_does_not_run_there() -> None:
    volta = prescribed("llama-3.1-8b", "v100-sxm2-32gb")
    assert not {"--precision fp8", "--precision int4", "--kv-cache-dtype fp8", "prefix caching"} & set(volta)
    assert "--precision fp8" not in prescribed("llama-3.1-8b", "mi250x")
    assert "speculative decoding" not in prescribed("llama-3.2-1b", "epyc-9654", memory=64 * 2**30)
    # a state has no draft taken out of it
    assert "speculative decoding" not in prescribed("jamba-v0.1", "h100-sxm", tp=2)
    assert "speculative decoding" in prescribed("qwen3-next-80b-a3b", "h200-sxm", tp=2)
    # 14 heads are no multiple of 4
    assert {change for change in prescribed("qwen2.5-0.5b", "l40s") if change.startswith("--tp")} <= {"--tp 2"}


def test_groups_of_quantized_weights_are_not_cut() -> None:
    # 11008 / 8 = 1376 is no multiple of 128, 11008 / 2 is one; nor is 13824 / 8
    assert "--precision int4" in prescribed("llama-2-7b", "l40s", tp=2)
    assert "--precision int4" not in prescribed("llama-2-7b", "l40s", tp=8)
    ranks = {change for change in prescribed("TheBloke/Llama-2-13B-chat-GPTQ", "h100-sxm") if "--tp" in change}
    assert ranks == {"--tp 2", "--tp 4"}


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V2-Lite"])
def test_an_8_bit_cache_below_ada_needs_attention_that_flashinfer_has(model: str) -> None:
    for gpu, runs in (("a100-sxm-80gb", False), ("h100-sxm", True)):
        one = deploy(load_model(model), find_accelerator(gpu), kv_cache_dtype="fp8")
        assert (wanting(one) == ()) == runs
        assert runs or "8-bit KV cache" in str(wanting(one)[0])


def test_devices_that_are_named_run_the_deployment() -> None:
    for model, gpu in (("llama-3.1-8b", "gaudi3"), ("Qwen/Qwen3-4B-AWQ", "l4"), ("llama-3.2-1b", "mi250x")):
        for one in roofline(model, gpu, prompt=512, context=512).prescriptions:
            if one.change.startswith("--gpu"):
                there = deploy(load_model(model), find_accelerator(one.change.split()[1]))
                assert wanting(there) == ()


def test_a_format_that_the_engine_does_not_run_there_is_refused() -> None:
    for gpu, precision in (("v100-sxm2-32gb", "fp8"), ("b200-sxm", "int8"), ("mi300x", "fp4")):
        with pytest.raises(BadInput, match=f"--precision is {precision}: vllm==.* does not run"):
            roofline("llama-3.1-8b", gpu, precision=precision)


@pytest.mark.parametrize(
    ("gpu", "options", "told"),
    [
        ("v100-sxm2-32gb", {}, "its compute capability is 7.0, and 7.5 is needed"),
        ("v100-sxm2-32gb", {"engine": "vllm==0.20"}, None),
        ("tpu-v5e", {}, "by a plugin alone"),
        ("t4", {"dtype": "bfloat16"}, "refuses to start in bfloat16 on NVIDIA T4"),
        ("t4", {"engine": "vllm==0.8"}, "give --dtype float16"),
        ("t4", {"engine": "vllm==0.8", "dtype": "float16"}, None),
        ("t4", {}, None),
        ("v100-sxm2-32gb", {"engine": "vllm==0.20", "kv_cache_dtype": "fp8"}, "8-bit KV cache"),
        ("l40s", {"dtype": "bfloat16", "kv_cache_dtype": "fp8"}, None),
        ("h100-sxm", {}, None),
    ],
)
def test_fit_says_first_what_of_a_deployment_does_not_run(gpu: str, options: dict[str, Any], told: str | None) -> None:
    warnings = [str(text) for text in fit("llama-3.1-8b", gpu, max_len=4096, **options).warnings]
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]


def test_fit_names_no_device_that_does_not_run_the_engine() -> None:
    for model, gpu, engine in (("llama-3.1-8b", "t4", "vllm"), ("llama-3.3-70b-instruct", "l40s", "sglang")):
        one = fit(model, gpu, max_len=4096, engine=engine).candidates[0]
        for mend in (one.mend, *one.other_mends):
            if mend is not None and mend.change.startswith("--gpu"):
                assert not unfit(
                    deploy(load_model(model), find_accelerator(mend.change.split()[1]), engine=engine), "auto"
                )


def test_a_device_that_is_named_twice_is_one_candidate() -> None:
    assert [one.gpu for one in fit("llama-3.1-8b", ["l40s", "L40S", "nvidia l40s", "l40s"]).candidates] == ["l40s"]
    assert not roofline("llama-3.1-8b", ["l40s", "L40S"]).others


def test_an_engine_on_a_device_that_it_does_not_run_on_is_said_first() -> None:
    answer = roofline("llama-3.1-8b", "v100-sxm2-32gb", tp=2)
    assert "its compute capability is 7.0, and 7.5 is needed" in str(answer.cautions[0])
    assert roofline("llama-3.1-8b", "v100-sxm2-32gb", tp=2, engine="vllm==0.14").cautions == ()
    assert roofline("llama-3.1-8b", "l40s").cautions == ()


def test_weights_on_a_device_that_unpacks_them_are_said_to_be() -> None:
    said = [str(text) for text in roofline("llama-3.1-8b", "a100-sxm-80gb", precision="fp8").assumptions]
    assert any("unpacked on NVIDIA A100" in text and "as many FLOPs" in text for text in said)


def test_sparse_latent_attention_needs_hopper_or_blackwell_of_the_data_centre() -> None:
    told = {
        gpu: [str(text) for text in roofline("deepseek-ai/DeepSeek-V3.2", gpu, tp=8, pp=4).cautions]
        for gpu in ("l40s", "a100-sxm-80gb", "h100-sxm", "b200-sxm")
    }
    wanting = {gpu: any("no kernels for the sparse latent attention" in text for text in told[gpu]) for gpu in told}
    assert wanting == {"l40s": True, "a100-sxm-80gb": True, "h100-sxm": False, "b200-sxm": False}
    assert not any("sparse" in str(text) for text in roofline("deepseek-v3", "l40s", tp=8, pp=4).cautions)


def test_llama_cpp_has_256_slots_at_most() -> None:
    options: dict[str, Any] = {"engine": "llama.cpp", "context": 4096, "prompt": 4096}
    found = {one.change: one for one in roofline("llama-3.2-1b", "h100-sxm", **options).prescriptions}
    assert "llama.cpp can have at once" in str(found["--batch 256"].text)
    with pytest.raises(BadInput, match=r"300 sequences at once are more than llama\.cpp can have"):
        roofline("llama-3.2-1b", "h100-sxm", batch=300, **options)
