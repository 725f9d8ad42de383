"""Examples in docstrings, type stubs, notebooks."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import crosshash
from crosshash import _crosshash

REQUIRED = os.environ.get("CROSSHASH_OPTIONAL") == "all"
EXAMPLES = Path(__file__).parent.parent / "examples"


def test_examples_in_docstrings_run():
    attempted = 0
    for module in pkgutil.iter_modules(crosshash.__path__):
        if module.name in ("__main__", "_crosshash"):
            continue
        result = doctest.testmod(importlib.import_module(f"crosshash.{module.name}"))
        assert result.failed == 0, module.name
        attempted += result.attempted
    result = doctest.testmod(crosshash)
    assert result.failed == 0 and attempted + result.attempted > 20


def test_the_example_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    guide = (Path(__file__).parents[3] / "docs" / "python.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/python.md", "exec"), names)
    kinds = {f"photo-{row}": kind for row, kind in enumerate(names["kind"])}
    assert [kinds[one] for one in names["found"].ids[0]] == [0] * 10
    assert names["report"].map.tie_aware > 0.9 and "photo-" in capsys.readouterr().out
    assert (tmp_path / "run" / "report.json").exists()


def test_everything_public_is_documented():
    for name in crosshash.__all__:
        one = getattr(crosshash, name)
        if name.startswith("__"):
            continue
        assert inspect.getdoc(one), name
        for method, value in vars(one).items() if inspect.isclass(one) else ():
            if not method.startswith("_") and callable(value):
                assert inspect.getdoc(value), f"{name}.{method}"


def test_the_stubs_list_what_the_extension_has():
    """Names in the stubs and in the extension are the same, of classes, too."""
    import ast

    stubs = Path(crosshash.__file__).with_name("_crosshash.pyi").read_text("utf-8")
    tree = ast.parse(stubs)
    listed = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    present = {name for name in dir(_crosshash) if not name.startswith("__")}
    assert listed == present
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name == "UnsuitableError":
            continue
        own = getattr(_crosshash, node.name)
        members = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        there = {name for name in vars(own) if not name.startswith("_")}
        assert {name for name in members if not name.startswith("_")} == there, node.name


def test_mypy_accepts_the_package():
    if not REQUIRED:
        pytest.importorskip("mypy")
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_types_a_user(tmp_path):
    """Types of results, as a user sees them."""
    if not REQUIRED:
        pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "import crosshash\n"
        "reveal_type(crosshash.CrossModalHasher().encode('text', ['a']))\n"
        "reveal_type(crosshash.Index(8).search([[0]])[0][0].distance)\n"
        "crosshash.Index('8')\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file=", "user.py"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300).stdout
    # mypy writes the alias or what it stands for, depending on the version of NumPy.
    assert "dtype[unsignedinteger[_8Bit]]]" in out or "dtype[numpy.unsignedinteger[" in out, out
    # mypy writes `int` or `builtins.int`, depending on its version.
    assert 'type is "int"' in out or 'type is "builtins.int"' in out, out
    assert 'incompatible type "str"' in out, out


@pytest.mark.parametrize("notebook", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_notebooks_run(notebook, tmp_path):
    if not REQUIRED:
        pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
        pytest.importorskip("pandas")
    if "torch" in notebook:
        pytest.importorskip("torch", reason="torch is too large for every build; this notebook was NOT run")
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(EXAMPLES / notebook, as_version=4)
    NotebookClient(content, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [one for cell in content.cells if cell.cell_type == "code" for one in cell.outputs]
    assert outputs and not [one for one in outputs if one.output_type == "error"]


def test_there_are_four_notebooks():
    assert len(list(EXAMPLES.glob("*.ipynb"))) == 4
