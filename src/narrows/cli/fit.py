"""`narrows fit`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import as_json, emit, lang, option, plot, waiting
from narrows.report.i18n import _


def _run(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.fit import fit

    for name in ("memory", "kv_cache_memory_bytes"):
        if options[name] is not None:
            from narrows.units import size

            options[name] = size("--" + name.replace("_", "-"), options[name])
    answer = fit(model, progress=waiting(), **options)
    if plot is not None:
        from narrows.report.charts import save
        from narrows.report.fit_chart import fit_chart

        save(fit_chart(answer), plot)
    emit(answer, as_json)
    return 0 if answer.fits else 1


command = click.Command(
    "fit",
    callback=_run,
    help=_(
        "Does MODEL fit on --gpu, and how much work fits beside it? MODEL is a config.json, a directory as downloaded "
        "from the hub, '-' for stdin, a name from 'narrows models', or a hub id (org/name, org/name@revision), whose "
        "config.json is then downloaded - or the whole start command in quotes, such as "
        "'vllm serve MODEL --max-model-len 32768', or a Compose file or Kubernetes manifest that holds it. "
        "Exit 0: fits, 1: does not, 2: bad input."
    ),
    params=[
        click.Argument(["model"]),
        option("--gpu", multiple=True, required=True, metavar="GPU", help=_("Accelerator; several are compared.")),
        option("--max-len", type=int, help=_("Tokens per sequence, prompt and answer. Default: the model's limit.")),
        option("--batch", type=int, help=_("Sequences at once. Default: as many as fit.")),
        option("--prompt", type=int, help=_("Of these, tokens of prompt, for idle → peak. Default: half.")),
        option("--tp", type=int, default=1, show_default=True, help=_("Tensor-parallel size.")),
        option("--pp", type=int, default=1, show_default=True, help=_("Pipeline-parallel size.")),
        option("--dtype", default="auto", show_default=True, help=_("Format of unquantized weights.")),
        option("--kv-cache-dtype", default="auto", show_default=True, help=_("Format of the KV cache.")),
        option("--engine", default="vllm", show_default=True, help=_("Serving engine, whose defaults apply.")),
        option("--gpu-memory-utilization", type=float, help=_("Share of device memory for the engine.")),
        option("--max-num-seqs", type=int, help=_("Sequences the engine runs at once.")),
        option("--max-num-batched-tokens", type=int, help=_("Tokens the engine runs in one step.")),
        option("--enforce-eager", is_flag=True, help=_("Without CUDA graphs.")),
        option("--kv-cache-memory-bytes", metavar="SIZE", help=_("KV cache of this size per device, such as 8GiB.")),
        option("--quantization", help=_("Quantize an unquantized checkpoint while it loads: fp8.")),
        option(
            "--memory",
            metavar="SIZE",
            help=_("Usable memory per device, such as 44.4GiB, in place of the catalogue's."),
        ),
        option("--cloud", help=_("Prices of this cloud only, such as aws.")),
        option("--assume", metavar="FAMILY", help=_("Read an unknown architecture as this one, and say so.")),
        as_json(),
        plot(),
        lang(),
    ],
)
