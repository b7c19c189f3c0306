"""From the names people and drivers use to one accelerator, or to a question that names the choices.

A name is words. Sizes (`80GB`, `46068 MiB`) are compared with the memory; words that tell nothing apart
(`GeForce`, `Tesla`, `GPU`) may be there or not; all others must belong to the device.
"""

from __future__ import annotations

from functools import cache

import msgspec

from narrows.hardware.accelerator import Accelerator
from narrows.hardware.catalogue import accelerators, shown
from narrows.hardware.this_machine import THIS_MACHINE, this_machine
from narrows.text import BadInput
from narrows.units import GIB

LONGEST_NAME = 200
"""Characters; the longest name in the catalogue has about a quarter of that."""

_UNITS = frozenset({"g", "gb", "gib", "mb", "mib"})
_VENDORS = frozenset({"nvidia", "amd", "intel", "google", "aws", "apple"})
_EMPTY = frozenset(
    {"accelerator", "card", "corporation", "cpu", "edition", "geforce", "generation", "gpu", "graphics", "inc"}
    | {"processor", "quadro", "r", "tesla", "tm"}
)
"""Words that tell no two devices apart; they may be left out and added."""
_BRANDS = frozenset({"arc", "epyc", "instinct", "jetson", "radeon", "rtx", "rx", "tpu", "xeon"})
"""Words that may be left out, but where given must be the device's own."""

_SPACES = {code: " " for code in range(128) if not chr(code).isalnum()}


def _words(text: str) -> list[str]:
    """The words of letters and digits (ASCII; no device is spelt otherwise)."""
    return text.encode("ascii", "replace").decode().translate(_SPACES).split()


def _split(words: list[str]) -> tuple[list[str], set[int]]:
    """The words that are no memory sizes, and the sizes in GB (MiB as GiB): `80gb`, `80 gb`, `46068 mib`."""
    rest: list[str] = []
    sizes: set[int] = set()
    for word in words:
        number = word.rstrip("gibm")
        unit = word[len(number) :]
        if unit in _UNITS and not number and rest and rest[-1].isdecimal():
            number = rest.pop()
        if unit in _UNITS and number.isdecimal():
            sizes.add(round(int(number) / 1024) if unit.startswith("m") else int(number))
        else:
            rest.append(word)
    return rest, sizes


def _tells(word: str) -> bool:
    """Whether a word can stand for a model: `l40s`, `4090`, but not `ultra` or `72`."""
    return len(word) >= 3 if word.isdecimal() else any(character.isdecimal() for character in word)


class _Known(msgspec.Struct, frozen=True):
    """The names of one device: `whole` with and `sizeless` without memory sizes, joined; `words` that may describe
    it; `telling` words, one of which a loose name must hold."""

    device: Accelerator
    whole: frozenset[str]
    sizeless: frozenset[str]
    words: frozenset[str]
    telling: frozenset[str]


def _joined(words: list[str]) -> set[str]:
    """The keys of a device's name: with its brand and without."""
    return {_key(words), _key([word for word in words if word not in _BRANDS])} - {""}


@cache
def _known() -> tuple[_Known, ...]:
    known = []
    for device in accelerators():
        names = [device.id, device.name, *device.aliases]
        if "(" in device.name:
            names.append(device.name.split("(")[0])
        spelt = [_words(name.lower()) for name in names]
        bare = [_split(words)[0] for words in spelt]
        build = set(_words(f"{device.memory_type} {device.form_factor}".lower()))
        telling = {w for name, words in zip(names, bare, strict=True) if "(" not in name for w in words} - build
        known.append(
            _Known(
                device=device,
                whole=frozenset().union(*map(_joined, spelt)),
                sizeless=frozenset().union(*map(_joined, bare)),
                words=frozenset(build.union(*bare, [device.vendor])),
                telling=frozenset(filter(_tells, telling)),
            )
        )
    return tuple(known)


@cache
def _exact() -> dict[str, Accelerator]:
    return {name.lower(): device for device in accelerators() for name in (device.id, device.name, *device.aliases)}


def find_accelerator(text: str) -> Accelerator:
    """The accelerator that a name means: `l40s`, `NVIDIA A100-SXM4-80GB`, `RTX 6000 Ada`, `H100 80GB HBM3`.

    Raises BadInput for an unknown name (with the nearest), one that fits several devices (with their ids), or one
    with a memory size that the device does not have. A size picks the configuration where a device comes in
    several (`m2 ultra 64gb`). `this-machine` is the device that `narrows measure machine` measured here.
    """
    name = text.strip().lower()
    if name == THIS_MACHINE:
        return this_machine()
    if not name:
        raise BadInput("give the name of an accelerator, for example l40s; 'narrows gpus' lists them")
    if len(name) > LONGEST_NAME:
        raise BadInput("no accelerator has a name of {length} characters; 'narrows gpus' lists them", length=len(text))
    if name in _exact():
        return _exact()[name]
    sizeless, sizes = _split(_words(name))
    words = frozenset(sizeless) - _EMPTY
    pool = [known for known in _known() if words & _VENDORS <= known.words]

    found = [known.device for known in pool if _key(_words(name)) in known.whole]
    if found:
        return _only(text, found)
    named = [known.device for known in pool if _key(sizeless) in known.sizeless]
    described = [known.device for known in pool if words <= known.words and words & known.telling]
    for candidates in (named, described):
        sized = [device for device in candidates if all(_comes_with(device, size) for size in sizes)]
        if sized:
            return _configured(_only(text, sized), sizes)
    if named or described:
        raise BadInput(
            "'{name}': no such device has that much memory; known are: {known}",
            name=shown(text),
            known=", ".join(f"{device.id} ({device.memory_label})" for device in (named or described)[:8]),
        )
    raise _unknown(text)


def _key(words: list[str]) -> str:
    """The words in one, without what tells nothing."""
    return "".join([word for word in words if word not in _EMPTY and word not in _VENDORS])


def _comes_with(device: Accelerator, gigabytes: int) -> bool:
    """Whether people may say that this device has so many GB: by its label, its binary size, or an option."""
    if device.is_cpu:
        return 0 < gigabytes * GIB <= device.memory_bytes
    return gigabytes in (
        *_split(_words(device.memory_label.lower()))[1],
        *device.memory_options,
        round(device.memory_bytes / GIB),
    )


def _configured(device: Accelerator, gigabytes: set[int]) -> Accelerator:
    """The device with the memory size that was asked for, where it comes in several."""
    if len(gigabytes) != 1 or not (device.is_cpu or device.memory_options):
        return device
    (size,) = gigabytes
    kind = "host DRAM" if device.is_cpu else "unified"
    return msgspec.structs.replace(device, memory_bytes=size * GIB, memory_label=f"{size} GB {kind}", memory_options=())


def _only(text: str, found: list[Accelerator]) -> Accelerator:
    if len(found) == 1:
        return found[0]
    raise BadInput(
        "'{name}' could be any of: {found}; which one is it?",
        name=shown(text),
        found=", ".join(device.id for device in found[:12]),
    )


def _unknown(text: str) -> BadInput:
    words = frozenset(_words(text.lower()))
    near = [known.device.id for known in _known() if words & known.telling][:8] or _alike(text)
    if near:
        return BadInput(
            "'{name}' is not in the catalogue; the nearest are: {near} ('narrows gpus' lists them all)",
            name=shown(text),
            near=", ".join(near),
        )
    return BadInput("'{name}' is not in the catalogue; 'narrows gpus' lists what is", name=shown(text))


def _alike(text: str) -> list[str]:
    """Up to three ids with a name spelt much like this one."""
    from difflib import get_close_matches

    ids = {key: known.device.id for known in _known() for key in (*known.sizeless, *known.whole)}
    matches = get_close_matches(_key(_words(text.lower()))[:60], ids, n=8, cutoff=0.6)
    return list(dict.fromkeys(ids[match] for match in matches))[:3]
