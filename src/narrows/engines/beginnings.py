"""How start commands begin, which tells them from the name of a model."""

from __future__ import annotations

import re

OTHERS = re.compile(
    r"(?:^|\s|/)(?P<name>sglang\.launch_server|sglang\s+serve|llama-(?:server|cli|bench)|trtllm-serve|"
    r"text-generation-launcher|mlx_lm\.server|ollama\s+(?:run|serve|create)|lmdeploy\s+serve)(?=\s|$)"
)
"""How servers are started whose commands narrows does not read."""
_STARTS = re.compile(r"\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:(?:sudo|env|nohup|exec)\s+)*(?P<program>\S+)(?=\s|$)")
_PROGRAMS = (
    *("vllm", "docker", "podman", "nerdctl"),
    *("llama-server", "llama-cli", "llama-bench", "sglang", "trtllm-serve"),
)
_RUN_BY_OTHERS = ("python", "python3", "uv", "uvx", "torchrun", "ollama", "lmdeploy", "bash", "sh", "srun", "kubectl")
"""Programs that start others: with words behind them they begin a command, alone they may name a model."""


def looks_like_command(text: str) -> bool:
    """Whether the text is a start command or the path of a YAML file, rather than a model."""
    if text.strip().endswith((".yml", ".yaml")):
        return True
    first = _STARTS.match(text)
    program, more = (first["program"], text[first.end() :].strip()) if first else ("", "")
    if program in _PROGRAMS or (program in _RUN_BY_OTHERS and more):
        return True
    return bool(
        re.search(r"vllm\s+serve(\s|$)|vllm[.\w/:-]*\s.*--model|(docker|podman|nerdctl)\s+run\s.*vllm", text, re.S)
        or OTHERS.search(text)
    )
