"""Versions of engines, compared as numbers; written as people and logs do: `0.8.5.post1`, `v0.19.2rc1.dev134+g7e9`."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

_WRITTEN = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?((?:a|b|rc|\.?dev|\.?post|\+|-).*)?$")


def parse_version(text: str) -> Version | None:
    """(major, minor, patch) of a version; None if it is not one.

    A development build between two releases (`0.19.2rc1.dev134`) is of the branch that becomes the next minor
    release, which is how vLLM's builds are numbered; a mere release candidate is the release it names.
    """
    found = _WRITTEN.match(text.strip().lower())
    if found is None:
        return None
    major, minor, patch = int(found[1]), int(found[2]), int(found[3] or 0)
    if "dev" in (found[4] or "") and patch > 0:
        return major, minor + 1, 0
    return major, minor, patch


def version_text(version: Version) -> str:
    """`0.24` or `0.8.5`: a patch of 0 is not written."""
    major, minor, patch = version
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"
