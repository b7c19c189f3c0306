"""Stored tensors laid beside the tensor table: what each component really holds, where it differs from the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from narrows.models.spec import ModelSpec
from narrows.models.stored.facts import Measured, format_named
from narrows.models.stored.inventory import StoredTensor
from narrows.models.stored.names import (
    SPLITS,
    bases,
    canonical,
    component_by_words,
    in_a_layer,
    is_packed_part,
    pattern_of,
)
from narrows.models.stored.safetensors import BITS
from narrows.models.tensors import StoredComponent, Tensor, TensorRow
from narrows.precision import FORMATS, Part

_PLAIN = frozenset(("F64", "F32", "F16", "BF16"))
_FP8 = frozenset(("F8_E4M3", "F8_E5M2"))
BEYOND = "layers beyond the config"
_MIXERS = ("attention", "linear attention", "state space", "short convolution")
"""Components that names do not always tell apart: a layer's own one holds."""

MOST_PATTERNS = 20_000
_LONGEST = 300
"""Patterns of names that are looked at, and characters of one: real models have a few hundred, of 120 at most. What is
beyond counts as of no known part."""

_Kept = dict[str, list[int]]
"""Format → [plain elements, other elements]."""
_Bins = dict[tuple[tuple[str, ...], int | None], _Kept]
"""(roles, layer) → what the names say is theirs."""
_Loose = dict[tuple[str, int | None, str], _Kept]
"""(component, layer, name pattern) → what only the words of its name tell of."""

Place = tuple[str, int | None]
"""(role, layer); a tower's tensor goes by its pattern, and what stands outside the layers has no layer."""


class Slot(msgspec.Struct):
    """A tensor of the table in one place, and what the files hold of it.

    pattern: its name in the table; name: with its layer. count, elements: of all such tensors (experts, repeats in a
    tower). wanted: bytes by the rules; ruled_plain: the rules store it as it is. plain: elements found that are stored
    as floats, which engines convert; other: elements by format of what they keep as it is.
    """

    tensor: Tensor
    pattern: str
    name: str
    component: str
    served: bool = True
    count: int = 0
    elements: int = 0
    wanted: int = 0
    ruled_plain: bool = True
    touched: bool = False
    plain: int = 0
    other: dict[str, int] = {}


class Attribution(msgspec.Struct, frozen=True):
    """What was found: components with their exact bytes, places of the table, and what belongs nowhere.

    converted: bytes by format of plain weights stored in another one than the config's.
    """

    components: tuple[StoredComponent, ...]
    slots: dict[Place, Slot]
    unattributed: tuple[int, int]
    converted: dict[str, int]


class _Target(msgspec.Struct, frozen=True):
    """Where tensors of one name pattern go: a component, and its roles if the name says that much."""

    component: str | None
    roles: tuple[str, ...]
    layered: bool
    direct: bool


_NOWHERE = _Target(None, (), False, False)


def slots_of(spec: ModelSpec) -> dict[Place, Slot]:
    """Every place of the tensor table, as the rules fill it."""
    found: dict[Place, Slot] = {}

    def add(key: str, layer: int | None, row: TensorRow, served: bool = True) -> None:
        name = row.name if layer is None else row.name.replace("{}", str(layer), 1)
        slot = found.setdefault((key, layer), Slot(row.tensor, row.name, name, row.component, served))
        slot.count += row.tensor.copies * row.count
        slot.elements += row.elements
        slot.wanted += row.stored_bytes
        dtype = spec.precision.dtype if row.tensor.format is None else FORMATS[row.tensor.format]
        slot.ruled_plain = slot.ruled_plain and len(row.parts) == 1 and row.parts[0].format == dtype

    for row in spec.outer_rows():
        add(row.tensor.role, None, row)
    for layer, indices in spec.kinds:
        for index in indices:
            for row in spec.layer_rows(layer, (index,)):
                add(row.tensor.role, index, row)
    for tower in spec.towers:
        for row in spec.tower_rows(tower):
            add(canonical(pattern_of(row.name)[0]), None, row, tower.served)
    return found


def _patterns(slots: dict[Place, Slot]) -> dict[str, tuple[str, ...]]:
    """Canonical name pattern → roles, in the dialect's spelling and where files fuse or split otherwise."""
    names = {role: slot.pattern for (role, _), slot in slots.items() if role == slot.tensor.role}
    roles = set(names)
    found: dict[str, tuple[str, ...]] = {role: (role,) for role, _ in slots if role not in names}
    by_name: dict[str, list[str]] = defaultdict(list)
    for role in sorted(roles):
        by_name[canonical(pattern_of(names[role])[0])].append(role)
    found.update({name: tuple(group) for name, group in by_name.items()})
    for group, leaves in SPLITS:
        for ending in ("", ".bias"):
            wanted = tuple(role + ending for role in group)
            if not roles.issuperset(wanted):
                continue
            weight = canonical(names[group[0]]).removesuffix(".weight")
            parent = weight.rpartition(".")[0]
            for around in {
                parent,
                parent.removesuffix(".{}"),
                parent + ".{}" if parent.endswith("experts") else parent,
            }:
                for leaf in leaves:
                    for last in (".weight", "") if not ending else (".bias", "_bias"):
                        found.setdefault(f"{around}.{leaf}{last}", wanted)
    return found


def attribute(spec: ModelSpec, tensors: Iterable[StoredTensor], *, quantized: bool) -> Attribution:
    """Lay the tensors beside the table. quantized: packed and 8-bit weights are kept as they are, not converted."""
    slots = slots_of(spec)
    patterns = _patterns(slots)
    converting = _PLAIN if quantized else _PLAIN | _FP8
    towers = tuple(dict.fromkeys(tower.name for tower in spec.towers))
    targets: dict[str, _Target] = {}
    sizes: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    counts: dict[str, int] = defaultdict(int)
    converted: dict[str, int] = defaultdict(int)
    bins: _Bins = {}
    loose: _Loose = {}
    by_component = _by_component(slots)
    nowhere = [0, 0]
    own = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}.get(spec.precision.dtype.name)
    for tensor in tensors:
        pattern, numbers = pattern_of(tensor.name)
        target = targets.get(pattern)
        if target is None and (len(targets) >= MOST_PATTERNS or len(pattern) > _LONGEST):
            target = _NOWHERE
        if target is None:
            target = targets[pattern] = _target(canonical(pattern), patterns, slots, towers, spec)
        layer = int(numbers[0]) if target.layered and numbers else None
        component = target.component
        if layer is not None and layer >= spec.layers:
            component = "MTP layer" if "MTP layer" in towers else BEYOND
        elif component in _MIXERS and not target.roles and (component, layer) not in by_component:
            component = next((one for one in _MIXERS if (one, layer) in by_component), None)
        if component is None:
            nowhere[0] += 1
            nowhere[1] += tensor.bytes
            continue
        sizes[component][tensor.format] += tensor.bytes
        counts[component] += 1
        if layer is not None and layer >= spec.layers:
            continue
        plain = target.direct and tensor.format in converting
        if target.roles:
            kept = bins.setdefault((target.roles, layer), {})
        else:
            kept = loose.setdefault((component, layer, pattern), {})
        entry = kept.setdefault(tensor.format, [0, 0])
        entry[0 if plain else 1] += tensor.elements
        if plain and tensor.format != own and target.roles:
            # a format of its own is no copy: routers' corrections are float32 in every file
            first = slots.get((target.roles[0], layer))
            if first is None or first.tensor.format is None:
                converted[tensor.format] += tensor.bytes
    for (roles, place), kept in bins.items():
        _share([(slots[role, place], slots[role, place].elements) for role in roles if (role, place) in slots], kept)
    for (component, place, _), kept in loose.items():
        _share(_short(by_component.get((component, place), []), sum(map(sum, kept.values()))), kept)
    components = tuple(
        StoredComponent(
            name,
            counts[name],
            sum(sizes[name].values()),
            {format_named(form, BITS[form]).name: size for form, size in sizes[name].items()},
        )
        for name in sizes
    )
    named = {format_named(form, BITS[form]).name: size for form, size in converted.items()}
    return Attribution(components, slots, (nowhere[0], nowhere[1]), named)


def _target(
    pattern: str,
    patterns: dict[str, tuple[str, ...]],
    slots: dict[Place, Slot],
    towers: tuple[str, ...],
    spec: ModelSpec,
) -> _Target:
    """Where a canonical pattern goes: by its name, else by its words."""
    layered = in_a_layer(pattern)
    packed = is_packed_part(pattern)
    for base in bases(pattern):
        roles = patterns.get(base)
        if roles is not None:
            # not every name of a layer starts with `layers.{}.`: `bert.encoder.layer.{}.`
            outer = slots.get((roles[0], None))
            slot = outer or next(slot for (role, _), slot in slots.items() if role == roles[0])
            return _Target(slot.component, roles, outer is None, base == pattern or not packed)
    component = component_by_words(pattern, towers)
    if component == "head" and spec.head_tied:
        component = "head, stored again"
    return _Target(component, (), layered and component is not None, not packed)


def _by_component(slots: dict[Place, Slot]) -> dict[tuple[str, int | None], list[Slot]]:
    found: dict[tuple[str, int | None], list[Slot]] = defaultdict(list)
    for (_, layer), slot in slots.items():
        found[slot.component, layer].append(slot)
    return found


def _short(slots: list[Slot], elements: int) -> list[tuple[Slot, int]]:
    """(slot, what it lacks) where elements without a place of their own may belong; all slots where none lacks any."""
    lacking = [(slot, slot.elements - slot.plain) for slot in slots if not slot.other and slot.plain < slot.elements]
    exact = [one for one in lacking if one[1] == elements]
    if exact:
        return exact[:1]
    # a buffer is either there by its name or not at all
    return [one for one in lacking if one[0].tensor.use != "buffer"] or [(slot, slot.elements) for slot in slots]


def _share(slots: list[tuple[Slot, int]], kept: _Kept) -> None:
    """Elements shared out over slots by weight, the rest to the last one."""
    total = sum(weight for _, weight in slots) or 1
    for form, (plain, other) in kept.items():
        left = [plain, other]
        for number, (slot, weight) in enumerate(slots, 1):
            mine = left if number == len(slots) else [plain * weight // total, other * weight // total]
            left = [left[0] - mine[0], left[1] - mine[1]]
            slot.plain += mine[0]
            if mine[1]:
                slot.other = {**slot.other, form: slot.other.get(form, 0) + mine[1]}
    for slot, _ in slots:
        slot.touched = True


def measured(spec: ModelSpec, slots: Iterable[Slot]) -> Measured | None:
    """The places where the files hold something else than the rules say; None where there are none."""
    table = {(slot.tensor.role, slot.name): tuple(_parts(spec, slot)) for slot in slots if _differs(spec, slot)}
    return Measured(table) if table else None


def _differs(spec: ModelSpec, slot: Slot) -> bool:
    if not slot.touched or not slot.served or slot.tensor.use == "buffer":
        return False
    if not slot.other:
        return not slot.ruled_plain or slot.plain != slot.elements
    if slot.ruled_plain:
        return True
    return sum(part.bytes for part in _parts(spec, slot)) * slot.count != slot.wanted


def _parts(spec: ModelSpec, slot: Slot) -> Iterator[Part]:
    """What is stored of one of the slot's tensors; where they are not all alike, the mean, rounded up."""
    dtype = spec.precision.dtype if slot.tensor.format is None else FORMATS[slot.tensor.format]
    if slot.plain:
        yield Part("weight", dtype, -(-slot.plain // slot.count))
    for form, elements in slot.other.items():
        yield Part(form, format_named(form, BITS[form]), -(-elements // slot.count))
