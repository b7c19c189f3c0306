"""`narrows check`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import Command, as_json, emit, example, lang, option, sizes
from narrows.report.i18n import _


def _run(log: str, as_json: bool, **options: Any) -> int:
    from narrows.answers.check import check

    sizes(options, "memory")
    answer = check(log, **options)
    emit(answer, as_json)
    return answer.exit_code


command = Command(
    "check",
    callback=_run,
    help=_(
        "What went wrong in LOG, the start-up log of vLLM (SGLang and llama.cpp are recognised), and what mends it? "
        "LOG is a file, or '-' for stdin: vllm serve MODEL 2>&1 | narrows check -. Exit 0: started, 1: failed, 2: the "
        "log does not tell."
    ),
    epilog=example("narrows check server.log --gpu l40s"),
    params=[
        click.Argument(["log"]),
        option(
            "--model",
            metavar="MODEL",
            help=_("The model's config.json or name, where the log's name is not in the catalogue."),
        ),
        option("--gpu", metavar="GPU", help=_("Accelerator, where the log does not name it.")),
        option("--memory", metavar="SIZE", help=_("Usable memory per device, such as 44.4GiB.")),
        option("--engine", metavar="ENGINE", help=_("Engine and version, such as vllm==0.24, in place of the log's.")),
        option("--start", type=int, metavar="N", help=_("Which start of the log, from 1. Default: the last.")),
        option("--calibrate", is_flag=True, help=_("Keep what this start showed, for later predictions.")),
        as_json(),
        lang(),
    ],
)
