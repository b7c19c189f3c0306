"""A layer imports only from layers above it (CONTRIBUTING.md, "Layers")."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "narrows"

LAYERS = (
    "text",
    "units",
    "quantity",
    "precision",
    "models",
    "hardware",
    "engines",
    "calibration",
    "deployment",
    "step",
    "memory",
    "roofline",
    "loading",
    "observe",
    "measure",
    "diagnosis",
    "accuracy",
    "answers",
    "report",
    "api",
    "cli",
    "__main__",
)


def layer_of(module: str) -> str:
    """`narrows.models.spec` → `models`; the package itself holds only the version and lazy names."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path) -> set[str]:
    """Every narrows module a file imports, wherever in the file, leaving out what only type checkers see."""
    tree = ast.parse(path.read_text("utf-8"))
    found = set()
    checked = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in checked:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("narrows"):
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("narrows")}
    return found


FILES = sorted(SOURCE.rglob("*.py"))


def test_every_file_belongs_to_a_layer() -> None:
    names = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert names - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_layer_imports_only_from_layers_above_it(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert imports(path) == set()
        return
    above = set(LAYERS[: LAYERS.index(own) + 1]) | {""}
    wrong = {module for module in imports(path) if layer_of(module) not in above}
    assert not wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400
