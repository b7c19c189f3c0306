"""What the READMEs show is what the program prints today, and both say the same commands."""

from __future__ import annotations

import re

import pytest

from scripts.readme import BLOCK, FILES, ROOT, renewed


@pytest.mark.parametrize("name", FILES)
def test_every_output_in_the_readme_is_the_programs(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert BLOCK.findall(text), "no runnable block was found"
    assert renewed(text) == text, "run `make readme`"


def test_both_readmes_show_the_same_commands_and_pictures() -> None:
    english, korean = ((ROOT / name).read_text("utf-8") for name in FILES)

    def commands(text: str) -> list[str]:
        return [command.replace(" --lang ko", "") for _, command in BLOCK.findall(text)]

    def pictures(text: str) -> list[str]:
        return [name.replace(".ko.", ".") for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)]

    assert commands(english) == commands(korean)
    assert pictures(english) == pictures(korean)
    assert all(
        (ROOT / name).exists() for text in (english, korean) for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    )


def test_the_two_commands_stand_at_the_top() -> None:
    for name in FILES:
        top = (ROOT / name).read_text("utf-8")[:1500]
        assert "make run" in top
        assert "make test" in top


@pytest.mark.parametrize("name", FILES)
def test_nothing_waits_to_be_filled_in(name: str) -> None:
    assert not re.search(r"^[A-Z]+_[A-Z_]+$", (ROOT / name).read_text("utf-8"), re.M)
