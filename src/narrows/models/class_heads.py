"""What the class of a file puts in place of the output head: nothing (embedding models) or a classifier."""

from __future__ import annotations

import msgspec

from narrows.models.readers.remote_families import REMOTE_FAMILIES
from narrows.models.spec import ModelSpec
from narrows.text import Text

_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")
_HEAD = ("head", "head.bias")


def note_of(architecture: str, family: str) -> Text | None:
    """What to say of a class without the head of a language model; None of one that has it.

    The body of a family is called after it: MistralModel. Classes beside files on the hub are called as they please
    (ChatGLMModel has a head), and what chats generates (InternVLChatModel).
    """
    called, name = plain(architecture), plain(family)
    if family in REMOTE_FAMILIES or name.endswith("chat") or not called.startswith(name):
        return None
    if called == f"{name}model":
        return Text("class {name} has no output head; none is counted", name=architecture[:60])
    if architecture.endswith(_CLASSIFIERS):
        return Text(
            "class {name} has a classifier in place of an output head; no head is counted, nor are the few rows of the "
            "classifier",
            name=architecture[:60],
        )
    return None


def as_its_class(spec: ModelSpec, architecture: str, family: str) -> tuple[ModelSpec, tuple[Text, ...]]:
    """A decoder without its head, where its class has none."""
    note = note_of(architecture, family)
    if note is None or spec.frame or any(tower.served for tower in spec.towers):
        return spec, ()
    kept = tuple((component, tensor) for component, tensor in spec.outer_tensors() if tensor.role not in _HEAD)
    return msgspec.structs.replace(spec, frame=kept), (note,)


def plain(name: str) -> str:
    """Letters and digits of a name: Qwen2_5_VLForConditionalGeneration and qwen2_5_vl begin alike."""
    return "".join(filter(str.isalnum, name.lower()))
