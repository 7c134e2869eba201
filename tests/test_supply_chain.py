"""What is installed and what is shipped: versions pinned, licences listed, nothing in the archives by chance."""

import email.message
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import camhd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.fixture(scope="module")
def licences():
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pins(licences):
    return {canonicalize_name(name): Version(version) for name, version in licences.pinned().items()}


def wanted():
    """Everything that the extras ask for by name."""
    own = [text for texts in EXTRAS.values() for text in texts] + PROJECT["dependencies"]
    return [found for found in map(Requirement, own) if found.name != "camhd"]


def closure():
    """The same, and what those need in turn, as far as it is installed."""
    todo, seen = wanted(), set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((name, *sorted(requirement.extras)))
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        extras = requirement.extras or {""}
        for need in map(Requirement, needs):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(need)
    return {name for name, *_ in seen}


def test_every_package_that_an_extra_installs_is_pinned(pins):
    names = closure()
    assert len(names) > 80
    built_in = {
        name for name in names if name.startswith(("nvidia-", "cuda-")) or name == "triton"
    }  # torch's, for CUDA
    old = {canonicalize_name(one.name) for one in wanted() if one.marker and not one.marker.evaluate()}
    assert sorted(names - built_in - old - set(pins)) == []


def test_every_pin_is_a_version_that_the_project_allows(pins):
    for requirement in wanted():
        name = canonicalize_name(requirement.name)
        if name in pins:
            assert pins[name] in requirement.specifier, requirement


def test_every_pin_is_exact(licences):
    lines = [line for line in licences.CONSTRAINTS.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line) for line in lines)
    assert len(licences.pinned()) == len(lines)


# What a user of camhd may use as freely as camhd; LGPL and MPL bind changes of that package only.
FREE = {"Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT"}
FREE |= {"MIT-CMU", "PSF-2.0", "Python-2.0", "Zlib", "LLVM-exception", "MPL-2.0", "LGPL-3.0-only", "Unlicense"}


def test_the_licence_of_every_pinned_package_is_listed_and_lets_it_be_used(licences, pins):
    listed = licences.listed()
    assert sorted(pins) == sorted(listed.keys() - {"package"})
    for name in pins:
        words = set(re.split(r" AND | OR | WITH ", listed[name]))
        assert words <= FREE, name


def test_the_list_says_what_the_installed_packages_say(licences, pins):
    listed, compared = licences.listed(), 0
    for name, version in pins.items():
        stated = licences.stated(name)
        if stated is not None and Version(importlib.metadata.version(name)).public == version.public:
            assert stated == listed[name], name
            compared += 1
    assert compared > 60


def test_a_package_without_a_licence_is_not_passed_over(licences, monkeypatch):
    about = email.message.Message()
    about["License"] = "UNKNOWN"
    monkeypatch.setattr(licences.metadata, "metadata", lambda name: about)
    with pytest.raises(SystemExit, match="some states no licence; look it up"):
        licences.stated("some")


def test_the_source_archive_holds_the_project_and_nothing_else(tmp_path):
    """The wheel's test is in `test_project.py`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    top = f"camhd-{camhd.__version__}/"
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    names = {member.name.removeprefix(top) for member in members}
    assert all(member.name.startswith(top) and member.isreg() for member in members)
    files = {name for name in names if "/" not in name}
    assert files == {
        *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "PKG-INFO", "README.md"),
        *(".gitignore", "constraints.txt", "mkdocs.yml", "pyproject.toml"),
    }
    kinds = {".py", ".md", ".typed", ".css", ".js", ".html", ".svg", ".png", ".toml", ".json", ".pt", ".txt", ".xz"}
    assert {name.split("/")[0] for name in names - files} == {"docs", "examples", "results", "src", "tests", "tools"}
    assert {Path(name).suffix for name in names - files} <= kinds
    assert not [
        name for name in names if re.search(r"(^|/)(__pycache__|\.venv|\.hypothesis|site|runs)/|\.(pyc|so)$", name)
    ]
    records = sum(member.size for member in members if member.name.startswith(f"{top}results/"))
    assert records < 2**22  # a few MB in all
    assert max(member.size for member in members if not member.name.startswith(f"{top}results/")) < 2**20
    assert {
        f"src/camhd/{path.relative_to(ROOT / 'src' / 'camhd').as_posix()}" for path in ROOT.glob("src/**/*.py")
    } <= names
