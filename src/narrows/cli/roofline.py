"""`narrows roofline`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import Command, as_json, emit, example, lang, option, plot, waiting
from narrows.report.i18n import _


def _run(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.roofline import roofline

    if options["memory"] is not None:
        from narrows.units import size

        options["memory"] = size("--memory", options["memory"])
    answer = roofline(model, progress=waiting(), **options)
    if plot is not None:
        from narrows.report.bounds_chart import bounds_chart
        from narrows.report.charts import save

        save(bounds_chart(answer), plot)
    emit(answer, as_json)
    return 0


command = Command(
    "roofline",
    callback=_run,
    help=_(
        "What bounds prefill and decode of MODEL on --gpu: compute, memory bandwidth, interconnect or overhead; where "
        "that turns; and what would help, each change computed. MODEL is what 'narrows fit' takes: a config.json, a "
        "GGUF file, a directory, a name from 'narrows models', a hub id, or an engine's start command in quotes. "
        "Exit 0: answered, 2: bad input."
    ),
    epilog=example("narrows roofline llama-3.1-8b --gpu l40s --sweep batch=1..256 --plot bounds.png"),
    params=[
        click.Argument(["model"]),
        option(
            "--gpu",
            multiple=True,
            required=True,
            metavar="GPU",
            help=_("Accelerator, a name from 'narrows gpus'; again for more, to compare."),
        ),
        option(
            "--prompt",
            metavar="TOKENS",
            type=int,
            help=_("Prefill: tokens of one prompt. Default: 4096, or the model's limit."),
        ),
        option("--batch", metavar="N", type=int, help=_("Decode: sequences in one step. Default: 16.")),
        option(
            "--context",
            metavar="TOKENS",
            type=int,
            help=_("Decode: tokens that each sequence has cached. Default: 4096, or the model's limit."),
        ),
        option("--tp", metavar="N", type=int, default=1, show_default=True, help=_("Tensor-parallel size.")),
        option("--pp", metavar="N", type=int, default=1, show_default=True, help=_("Pipeline-parallel size.")),
        option(
            "--ep",
            metavar="N",
            type=int,
            default=1,
            show_default=True,
            help=_("Expert-parallel size, of the ranks of --tp."),
        ),
        option(
            "--engine",
            metavar="ENGINE",
            default="vllm",
            show_default=True,
            help=_("Serving engine, with its version or without: vllm==0.24. Its defaults apply."),
        ),
        option(
            "--precision",
            multiple=True,
            metavar="FORMAT",
            help=_("Format of the weights: bf16, fp16, fp8, int8, fp4, int4; several are compared."),
        ),
        option(
            "--dtype", metavar="FORMAT", default="auto", show_default=True, help=_("Format of unquantized weights.")
        ),
        option(
            "--kv-cache-dtype", metavar="FORMAT", default="auto", show_default=True, help=_("Format of the KV cache.")
        ),
        option(
            "--quantization",
            metavar="METHOD",
            help=_(
                "Quantize an unquantized checkpoint while it loads: fp8, bitsandbytes, …; or plan for a GGUF file "
                "type: Q4_K_M."
            ),
        ),
        option(
            "--max-len", metavar="TOKENS", type=int, help=_("Tokens per sequence at most. Default: prompt or context.")
        ),
        option("--max-num-seqs", metavar="N", type=int, help=_("Sequences the engine runs at once.")),
        option("--max-num-batched-tokens", metavar="TOKENS", type=int, help=_("Tokens the engine runs in one step.")),
        option(
            "--gpu-memory-utilization",
            metavar="SHARE",
            type=float,
            help=_("Share of device memory for the engine, such as 0.9."),
        ),
        option("--enforce-eager", is_flag=True, help=_("Without CUDA graphs.")),
        option(
            "--memory",
            metavar="SIZE",
            help=_("Usable memory per device, such as 44.4GiB, in place of the catalogue's."),
        ),
        option(
            "--peak",
            multiple=True,
            metavar="FORMAT=RATE",
            help=_("Peak of a device that was measured, such as bf16=362TFLOP/s, in place of the catalogue's."),
        ),
        option(
            "--bandwidth",
            metavar="RATE",
            help=_("Memory bandwidth of a device that was measured, such as 864GB/s, in place of the catalogue's."),
        ),
        option(
            "--sweep",
            metavar="RANGE",
            help=_("Many points: batch=1..256, context=1024..65536x2 (doubling), prompt=512..8192+512, batch=1,8,64."),
        ),
        option(
            "--operator", metavar="NAME", help=_("One operator's way through device memory, L2 and on-chip memory.")
        ),
        option("--generations", is_flag=True, help=_("The same load across generations of accelerators.")),
        option("--naive-attention", is_flag=True, help=_("Beside fused attention, the one that stores its scores.")),
        option("--cloud", metavar="CLOUD", help=_("Prices of this cloud only, such as aws.")),
        option("--assume", metavar="FAMILY", help=_("Read an unknown architecture as this one, and say so.")),
        as_json(),
        plot(),
        lang(),
    ],
)
