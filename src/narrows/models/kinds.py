"""What kind of value stands under a name in any config, whether or not a reader needs it.

A file that holds a number where an object or a list belongs is broken, and what a reader would make of it is a guess:
it is refused. Another odd value, under a name that decides no size, is named among the assumptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from narrows.models.fields import shown
from narrows.text import BadInput, Text

_OBJECTS: Final = frozenset("rope_parameters rope_scaling id2label label2id auto_map task_specific_params".split())  # noqa: SIM905
_LISTS: Final = frozenset(
    """
    architectures layer_types mlp_layer_types layers_block_type mlp_only_layers no_rope_layers moe_layers
    cross_attention_layers attn_layer_indices full_attn_idxs hybrid_layer_pattern indexer_types block_types
    attention_layers attention_types attn_type_list
    """.split()  # noqa: SIM905
)
_HOLD_FIELDS: Final = frozenset("encoder decoder rope_parameters rope_scaling full_attention sliding_attention".split())  # noqa: SIM905
_DEEPEST: Final = 8
_MOST_NAMED: Final = 4


def holds_fields(name: str) -> bool:
    """Whether an object of this name holds fields whose names mean what they mean elsewhere."""
    return name.endswith("_config") or name in _HOLD_FIELDS


def check_kinds(config: dict[str, Any]) -> list[Text]:
    """Refuse objects and lists that are none, in the config and the configs inside it; name other odd values.

    Raises BadInput with the field, its value and what belongs there.
    """
    odd = list(_odd(config, "", 0))
    if not odd:
        return []
    named = ", ".join(odd[:_MOST_NAMED]) + (", …" if len(odd) > _MOST_NAMED else "")
    return [
        Text("fields of another type than in the models narrows knows, taken to change nothing: {fields}", fields=named)
    ]


def _odd(config: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    for name, value in config.items():
        if value is None:
            continue
        _refuse_broken(name, value, (path + name)[:80])
        usual = kinds_by_name().get(name)
        if usual is not None and not any(_is(value, kind) for kind in usual):
            yield f"{(path + name)[:80]} = {shown(value)}"
        if isinstance(value, dict) and depth < _DEEPEST and holds_fields(name):
            yield from _odd(value, f"{path}{name}.", depth + 1)


def _refuse_broken(name: str, value: Any, field: str) -> None:
    if (name in _OBJECTS or name.endswith("_config")) and not isinstance(value, dict):
        raise BadInput(
            "config field '{field}' is {value}; it must be an object of fields", field=field, value=shown(value)
        )
    if name in _LISTS and not isinstance(value, list):
        raise BadInput("config field '{field}' is {value}; it must be a list", field=field, value=shown(value))
    if name == "architectures" and any(not isinstance(one, str) for one in value):
        raise BadInput(
            "config field '{field}' is {value}; it must be a list of class names", field=field, value=shown(value)
        )
    if name == "model_type" and not isinstance(value, str):
        raise BadInput("config field '{field}' is {value}; it must be a word", field=field, value=shown(value))


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "list":
            return isinstance(value, list)
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool) or value in (0, 1)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def kinds_by_name() -> dict[str, tuple[str, ...]]:
    """Kinds of value that fields hold in all configs carried here (`scripts/make_field_kinds.py`), by name."""
    with open(os.path.join(os.path.dirname(__file__), "data", "field-kinds.json"), "rb") as file:
        names = msgspec.json.decode(file.read(), type=dict[str, list[str]])
    return {name: tuple(kinds.split()) for kinds, of_kinds in names.items() for name in of_kinds}
