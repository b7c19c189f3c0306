"""Options that several commands share: what a deployment is, and what its structure and prices are taken from."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import option
from narrows.report.i18n import _

_SETTINGS: dict[str, dict[str, Any]] = {
    "--gpu": {
        "multiple": True,
        "required": True,
        "metavar": "GPU",
        "help": _("Accelerator, a name from 'narrows gpus'; again for more, to compare."),
    },
    "--tp": {"metavar": "N", "type": int, "default": 1, "show_default": True, "help": _("Tensor-parallel size.")},
    "--pp": {"metavar": "N", "type": int, "default": 1, "show_default": True, "help": _("Pipeline-parallel size.")},
    "--ep": {
        "metavar": "N",
        "type": int,
        "default": 1,
        "show_default": True,
        "help": _("Expert-parallel size: whole experts are given out over so many of the ranks of --tp × --dp."),
    },
    "--dp": {
        "metavar": "N",
        "type": int,
        "default": 1,
        "show_default": True,
        "help": _("Replicas of all but the experts, each of --tp devices, with sequences of its own (DP attention)."),
    },
    "--dtype": {
        "metavar": "FORMAT",
        "default": "auto",
        "show_default": True,
        "help": _("Format of unquantized weights."),
    },
    "--kv-cache-dtype": {
        "metavar": "FORMAT",
        "default": "auto",
        "show_default": True,
        "help": _("Format of the KV cache."),
    },
    "--engine": {
        "metavar": "ENGINE",
        "default": "vllm",
        "show_default": True,
        "help": _("Serving engine, with its version or without: vllm==0.24. Its defaults apply."),
    },
    "--gpu-memory-utilization": {
        "metavar": "SHARE",
        "type": float,
        "help": _("Share of device memory for the engine, such as 0.9."),
    },
    "--max-num-seqs": {"metavar": "N", "type": int, "help": _("Sequences the engine runs at once.")},
    "--max-num-batched-tokens": {"metavar": "TOKENS", "type": int, "help": _("Tokens the engine runs in one step.")},
    "--enforce-eager": {"is_flag": True, "help": _("Without CUDA graphs.")},
    "--quantization": {
        "metavar": "METHOD",
        "help": _(
            "Quantize an unquantized checkpoint while it loads: fp8, bitsandbytes, …; or plan for a GGUF file type: "
            "Q4_K_M."
        ),
    },
    "--memory": {
        "metavar": "SIZE",
        "help": _("Usable memory per device, such as 44.4GiB, in place of the catalogue's."),
    },
    "--cpu-offload-gb": {
        "metavar": "GIB",
        "type": float,
        "help": _("Weights per device that stay in host memory, in GiB (vLLM)."),
    },
    "--speculative-config": {
        "metavar": "JSON",
        "help": _(
            "What drafts, as vLLM's flag has it: a method (ngram, mtp, eagle, eagle3, medusa, draft_model), a model "
            "where the draft has one, and num_speculative_tokens."
        ),
    },
    "--cloud": {"metavar": "CLOUD", "help": _("Prices of this cloud only, such as aws.")},
    "--assume": {"metavar": "FAMILY", "help": _("Read an unknown architecture as this one, and say so.")},
}


def shared(name: str) -> click.Option:
    """One of the options that mean the same in every command."""
    return option(name, **_SETTINGS[name])
