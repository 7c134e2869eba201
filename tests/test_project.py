"""The project around the library: what it ships, what it says of itself, and which way its imports run."""

import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import camhd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "camhd"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


# What it ships


def test_the_version_is_the_same_everywhere():
    version = PYPROJECT["project"]["version"]
    assert camhd.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    package = {name for name in names if name.startswith("camhd/")}
    meta = f"camhd-{camhd.__version__}.dist-info"
    page = (PACKAGE / "lab" / "report" / "assets").iterdir()
    sources = {f"camhd/{path.relative_to(PACKAGE).as_posix()}" for path in (*PACKAGE.rglob("*.py"), *page)}
    assert package == sources | {"camhd/py.typed"}
    assert {name.split("/")[0] for name in names - package} == {meta}
    assert f"{meta}/licenses/LICENSE" in names


def test_import_camhd_brings_torch_and_little_else():
    program = "import json, sys, camhd; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    loaded = set(json.loads(output))
    assert not {name for name in loaded if re.match(r"camhd\.(lab|cli)\b", name)}
    assert not loaded & {"sklearn", "rich", "hypothesis", "pytest", "matplotlib", "pandas"}


# What it says of itself

GENERATED = {
    ".git",
    ".venv",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "runs",
    "site",
}


def text_files() -> Iterator[tuple[Path, str]]:
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not GENERATED & set(path.relative_to(ROOT).parts):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def test_no_file_names_a_path_of_one_machine():
    machine_path = re.compile(r"(?<![\w.$}/-])/(?:root|work|home|Users)/[\w.]")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if machine_path.search(line)
    ]
    assert not found


def test_the_python_examples_of_the_readme_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"README.md, Python example {number}", "exec"), namespace)
    assert "layer" in capsys.readouterr().out


# Which way its imports run


def rooms() -> list[str]:
    """The rooms in order, from the table in CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## The rooms")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def room_of(module: str) -> str:
    """`camhd.levels.kinds` is in room `levels`; `camhd` itself is in room `__init__`."""
    _, _, below = module.partition(".")
    return below.split(".")[0] or "__init__"


def imported_modules(path: Path, root: Path = PACKAGE) -> Iterator[str]:
    """Every module of the package that a file imports, by full name."""
    modules = {".".join(found.relative_to(root.parent).with_suffix("").parts) for found in root.rglob("*.py")}
    modules |= {module.removesuffix(".__init__") for module in modules}
    parts = path.relative_to(root.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # One dot is the folder of the file, each further dot the folder above.
            base = [*parts[: len(parts) - node.level]] if node.level else []
            base += node.module.split(".") if node.module else []
            submodules = [".".join([*base, alias.name]) for alias in node.names]
            names = [name if name in modules else ".".join(base) for name in submodules]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == root.name)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in sorted(PACKAGE.rglob("*.py"))]
)
def test_a_file_imports_only_from_rooms_above_its_own(path):
    order = rooms()
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert own in order, f"room {own!r} is not in the table of CONTRIBUTING.md; add it there, in its place"
    allowed = order[: order.index(own) + 1]
    wrong = {name for name in imported_modules(path) if room_of(name) not in allowed}
    assert not wrong, f"room {own!r} may import from {allowed} only, but {path.name} imports {sorted(wrong)}"


def test_the_import_check_sees_every_spelling(tmp_path):
    package = tmp_path / "camhd"
    (package / "rules").mkdir(parents=True)
    for name in ("__init__.py", "optim.py", "rules/__init__.py"):
        (package / name).touch()
    spellings = {
        "import camhd.optim": "camhd.optim",
        "from camhd import optim": "camhd.optim",
        "from camhd.optim import Adam": "camhd.optim",
        "from .. import optim": "camhd.optim",
        "from ..optim import Adam": "camhd.optim",
        "from . import adam": "camhd.rules",
        "import camhd": "camhd",
        "from camhd import Adam": "camhd",
        "def late():\n    from camhd import optim": "camhd.optim",
    }
    for line, module in spellings.items():
        (package / "rules" / "sgd.py").write_text(line + "\n")
        assert list(imported_modules(package / "rules" / "sgd.py", package)) == [module], line
