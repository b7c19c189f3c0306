"""`narrows models`."""

from __future__ import annotations

import click

from narrows.cli.options import Command, as_json, emit, example, lang, option, waiting
from narrows.cli.shared import shared
from narrows.report.i18n import _
from narrows.text import BadInput


def _run(
    model: str | None,
    find: str,
    length: int | None,
    kv_cache_dtype: str,
    quantization: str | None,
    assume: str | None,
    as_json: bool,
) -> None:
    from narrows.answers import models as answers

    of_one = {"--length": length, "--quantization": quantization, "--assume": assume}
    of_one["--kv-cache-dtype"] = None if kv_cache_dtype == "auto" else kv_cache_dtype
    used = [name for name, value in of_one.items() if value is not None]
    if model is None and used:
        raise BadInput("{option} is about one model; name it, or leave the option out", option=used[0])
    if model is not None and find:
        raise BadInput("--find lists names of the catalogue, and a model is named too; give one of them")
    if model is None:
        emit(answers.models(find), as_json)
    else:
        answer = answers.model(
            model,
            length=length,
            kv_cache_dtype=kv_cache_dtype,
            quantization=quantization,
            assume=assume,
            progress=waiting(),
        )
        emit(answer, as_json)


command = Command(
    "models",
    callback=_run,
    help=_(
        "Without MODEL: the bundled catalogue. With MODEL (a config.json, a GGUF file, a directory, '-', a name, or a "
        "hub id: org/name, org/name@revision): its structure, parameters, bytes and cache."
    ),
    epilog=example("narrows models --find llama"),
    params=[
        click.Argument(["model"], required=False),
        option("--find", default="", metavar="WORDS", help=_("List only names that hold these words.")),
        option("--length", metavar="TOKENS", type=int, help=_("Tokens of one sequence. Default: the model's limit.")),
        shared("--kv-cache-dtype"),
        option("--quantization", metavar="TYPE", help=_("Stored as this GGUF file type of llama.cpp, such as Q4_K_M.")),
        shared("--assume"),
        as_json(),
        lang(),
    ],
)
