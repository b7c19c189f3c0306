"""Names of a decoder that stands inside a multimodal model: those of the decoder alone, moved.

A dialect such as `language_model/mixtral` reads: mixtral's names, moved as `language_model` says.
"""

from __future__ import annotations

from collections.abc import Callable


def _moved(to: str) -> Callable[[str], str]:
    """The decoder is `model.{to}`, the head stays where it is."""
    return lambda name: name.replace("model.", f"model.{to}.", 1) if name.startswith("model.") else name


def _under(prefix: str) -> Callable[[str], str]:
    """Decoder and head stand together inside."""
    return lambda name: f"{prefix}.{name}"


WAYS: dict[str, Callable[[str], str]] = {
    **{
        prefix: _under(prefix)
        for prefix in ("language_model", "text_model", "text_decoder", "decoder", "llm", "language")
    },
    "model.language_model": _moved("language_model"),
    "model.text_model": _moved("text_model"),
    "model.vlm.language_model": _moved("vlm.language_model"),
}


class Dialects(dict[str, dict[str, str]]):
    """Names by dialect; those of decoders inside others are made when first asked for."""

    def __missing__(self, dialect: str) -> dict[str, str]:
        way, inside, alone = dialect.partition("/")
        if not inside:
            raise KeyError(dialect)
        moved = {role: WAYS[way](name) for role, name in self[alone].items()}
        self[dialect] = moved
        return moved
