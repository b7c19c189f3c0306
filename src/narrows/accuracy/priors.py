"""What a coefficient is taken for where no record says anything, and the versions it bears on."""

from __future__ import annotations

from narrows.memory.ledger import UNMEASURED

MIB = 2**20

TABLE = "memory of the sampling kernels in vllm-project/vllm#33538, 1024 × 131072 and 512 × 131072 logits"
_BEYOND = "assumed: three times that of one device, as for versions that were not scored"
PRIORS = {
    "sampler_sort_bytes_per_logit": (40.0, "B", 36.0, 44.0, TABLE),
    "sampler_triton_bytes_per_logit": (14.0, "B", 12.0, 16.0, f"{TABLE}, and the logits in 16 bits"),
    "sampler_flashinfer_bytes_per_logit": (15.0, "B", 13.0, 17.0, f"{TABLE}, and the logits in 16 bits"),
    "sampler_second_runner_bytes_per_logit": (
        34.0,
        "B",
        15.0,
        46.0,
        "assumed from one log: v0.31.0 keeps 1.7 GiB for Llama-3.1-8B on an A100 with 256 sequences",
    ),
    "sampler_plain_bytes_per_logit": (
        8.0,
        "B",
        4.0,
        14.0,
        "first principles: the logits in 32 bits, and their probabilities",
    ),
    "forward_copies": (1.0, "copies", 0.8, 1.3, "first principles: what is alive at the widest place of a layer"),
    "expert_copies": (2.0, "copies", 1.0, 3.0, "assumed: input and output of an expert's workspace are live at once"),
    "vision_copies": (1.0, "copies", 0.8, 3.0, "first principles: what is alive at the widest place of a layer"),
    "runtime_bytes": (128.0 * MIB, "B", 64.0 * MIB, 256.0 * MIB, "assumed"),
    "runtime_bytes_whole_prompts": (256.0 * MIB, "B", 128.0 * MIB, 512.0 * MIB, "assumed"),
    "reserved_bytes": (512.0 * MIB, "B", 128.0 * MIB, 1536.0 * MIB, "assumed"),
    "runtime_bytes_rocm": (512.0 * MIB, "B", 100.0 * MIB, 1536.0 * MIB, "assumed"),
    "runtime_bytes_parallel": (160.0 * MIB, "B", 64.0 * MIB, 512.0 * MIB, "assumed"),
    "nccl_bytes_per_peer": (320.0 * MIB, "B", 64.0 * MIB, 1024.0 * MIB, "assumed"),
    "graph_bytes_per_layer": (0.125 * MIB, "B", 0.06 * MIB, 0.3 * MIB, "assumed"),
    "graph_bytes_per_layer_cut_experts": (0.25 * MIB, "B", 0.12 * MIB, 0.6 * MIB, "assumed"),
    "graph_times_old_driver": (
        3.34,
        "times",
        1.0,
        5.5,
        "vllm-project/vllm#5517: 3.8 GiB on A10G and L4 with drivers of CUDA 12.2 and 12.3, 1.14 with that of 12.4",
    ),
    "delta_first_bytes": (
        1126.0 * MIB,
        "B",
        400.0 * MIB,
        1800.0 * MIB,
        "Qwen3-Next on four H100 has 1.84 GiB outside the allocator (vllm-project/vllm#24881), 1.35 more than others",
    ),
    "delta_tuned_bytes": (
        3686.0 * MIB,
        "B",
        1024.0 * MIB,
        3994.0 * MIB,
        "3.81 GiB with 0.18.0 on a RTX 5090, 1.8 with 0.17.1, in one public breakdown; tuned while profiled (#36599)",
    ),
    "delta_late_bytes": (
        0.0,
        "B",
        0.0,
        1178.0 * MIB,
        "0.13 GiB outside the allocator in vllm-project/vllm#50722; another build takes 1.15 GiB more (#53787)",
    ),
    "context_bytes": (
        600.0 * MIB,
        "B",
        400.0 * MIB,
        1024.0 * MIB,
        "a H100 has 78.57 of 79.18 GiB free when vLLM starts (log of v0.10.2)",
    ),
    "nvlink_bytes_per_peer": (320.0 * MIB, "B", 64.0 * MIB, 1024.0 * MIB, "assumed: as NCCL's before 0.11.1"),
    "reserve_error": (0.0, "ratio", -1.0, 1.0, "assumed"),
    "reserve_error_whole_prompts": (0.0, "ratio", -1.0, 1.0, "assumed"),
    "reserve_error_beyond_sorted": (0.0, "ratio", -UNMEASURED, UNMEASURED, _BEYOND),
    "reserve_error_beyond": (0.0, "ratio", -UNMEASURED, UNMEASURED, _BEYOND),
}
"""Where no record says anything: value, unit, low, high, basis. A prior is a fact or an assumption, never a fit."""

VERSIONS = {
    "sampler_sort_bytes_per_logit": "before 0.17; devices below compute capability 8.0 also later",
    "sampler_triton_bytes_per_logit": "0.17 to 0.20",
    "sampler_flashinfer_bytes_per_logit": "0.21 to 0.28",
    "sampler_second_runner_bytes_per_logit": "from 0.26 (dense models) and 0.29",
    "sampler_plain_bytes_per_logit": "as the second runner, on devices below compute capability 8.0",
    "vision_copies": "towers with rotary positions",
    "runtime_bytes": "from 0.8",
    "runtime_bytes_whole_prompts": "before 0.8",
    "reserved_bytes": "before 0.6.4",
    "graph_bytes_per_layer_cut_experts": "experts on several devices",
    "delta_first_bytes": "gated-delta layers: 0.10 to 0.17, on Hopper to 0.19",
    "delta_tuned_bytes": "gated-delta layers: 0.18 and 0.19, not on Hopper",
    "delta_late_bytes": "gated-delta layers: from 0.20",
    "graph_times_old_driver": "drivers before R550 (CUDA 12.4)",
    "nccl_bytes_per_peer": "before 0.11.1",
    "nvlink_bytes_per_peer": "from 0.18, on Hopper and newer",
    "reserve_error": "from 0.8: one NVIDIA device, text alone",
    "reserve_error_whole_prompts": "before 0.8",
    "reserve_error_beyond_sorted": "0.8 to 0.16: several devices, images, unified memory, other vendors",
    "reserve_error_beyond": "from 0.17: several devices, images, unified memory, other vendors",
}
"""Versions that a coefficient bears on; the others bear on all."""
