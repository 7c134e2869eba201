"""Whole or not at all: a full disk, Ctrl-C, kill -9 and two processes at once leave nothing that is half a file."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

import camhd
import datafiles
import loopback
from camhd.lab import data
from camhd.lab.data import download, writing

SOURCES = str(Path(camhd.__file__).parents[1])
BIG = datafiles.svhn(train=400)
FIRST = len(BIG["train_32x32.mat"])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def svhn_at(monkeypatch, *urls):
    datafiles.publish(monkeypatch, "svhn", datafiles.edition("svhn", BIG, urls))


# Downloads


def test_a_full_disk_is_told_and_leaves_nothing(folder, monkeypatch):
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        with monkeypatch.context() as patch:
            patch.setattr(writing.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1000))
            with pytest.raises(data.DataError, match=f"room for {FIRST:,} bytes, found 1,000 bytes free"):
                data.get("svhn", folder)
        assert not datafiles.everything_in(folder)

        def full(name, done, size):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.raises(data.DataError, match=r"No space left on device.*Make room"):
            data.get("svhn", folder, progress=full)
        assert not datafiles.everything_in(folder)
        data.get("svhn", folder)
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_an_interrupt_keeps_the_part_and_nothing_else(folder, monkeypatch):
    monkeypatch.setattr(download, "_PIECE", 10_000)

    def interrupt(name, done, size):
        if done >= 60_000:
            raise KeyboardInterrupt

    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        with pytest.raises(KeyboardInterrupt):
            data.get("svhn", folder, progress=interrupt)
        assert datafiles.everything_in(folder).keys() == {"svhn/.partial/train_32x32.mat.part"}
        data.get("svhn", folder)
        assert site.asked[1] == ("train_32x32.mat", "bytes=60000-")
    assert datafiles.everything_in(folder / "svhn") == BIG


PROGRAM = """
    import sys, time
    from camhd.lab import data
    from camhd.lab.data import download, published
    published.EDITIONS["svhn"] = (published.Edition("svhn", tuple(published.File(*f) for f in {files}), ({url!r},)),)
    download._PIECE = 10_000
    def progress(name, done, size):
        print(done, flush=True)
        time.sleep({wait})
    data.get("svhn", {folder!r}, progress=progress)
"""


def process(folder, url, wait=0.0):
    known = [(f.name, f.size, f.md5, f.sha256) for f in datafiles.edition("svhn", BIG).files]
    program = textwrap.dedent(PROGRAM).format(files=known, url=url, folder=str(folder), wait=wait)
    environment = {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_that_is_read_and_the_next_one_tidies_up(folder, monkeypatch):
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        with process(folder, site.url, wait=0.2) as killed:
            for line in killed.stdout:
                if int(line) >= 50_000:
                    break
            killed.send_signal(signal.SIGKILL)
        left = {path.name for path in (folder / "svhn" / ".partial").iterdir()}
        assert "train_32x32.mat.part" in left
        assert len(left) == 3  # a lock, and pooch's empty temporary file
        with pytest.raises(data.MissingData):
            data.load("svhn", folder)
        data.get("svhn", folder)
        assert site.asked[1][1] not in (None, "bytes=0-")
    assert datafiles.everything_in(folder / "svhn") == BIG


@pytest.mark.slow
def test_two_processes_download_once(folder):
    with loopback.serving(BIG) as site:
        both = [process(folder, site.url, wait=0.002) for _ in range(2)]
        for one in both:
            one.communicate()
            assert one.returncode == 0
        assert sorted(name for name, _ in site.asked) == sorted(BIG)
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    svhn_at(monkeypatch, loopback.closed_port())
    with pytest.raises(data.DataError, match=r"a folder that can be written to.*--folder or CAMHD_DATA"):
        data.get("svhn", tmp_path / "file")


# Copies


class Full:
    """A disk that is full after so many bytes, or a user who loses patience then."""

    def __init__(self, room, error):
        self.room, self.error = room, error

    def __call__(self, path, content):
        path.write_bytes(content[: self.room])
        self.room -= len(content)
        if self.room < 0:
            raise self.error


@pytest.mark.parametrize("room", [0, 100, FIRST, FIRST + 100])
@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(errno.ENOSPC, "No space left on device"), data.DataError), (KeyboardInterrupt(), KeyboardInterrupt)],
    ids=["full disk", "Ctrl-C"],
)
def test_a_copy_that_fails_leaves_nothing(room, error, told, folder, tmp_path, monkeypatch):
    source = datafiles.write(tmp_path / "source", BIG)
    for note in (None, "mine"):
        svhn_at(monkeypatch) if note is None else datafiles.publish(monkeypatch, "svhn")
        with monkeypatch.context() as patch:
            patch.setattr(writing, "write", Full(room, error))
            with pytest.raises(told):
                data.add("svhn", source, note=note, folder=folder)
        assert not datafiles.everything_in(folder)
        assert datafiles.everything_in(source) == BIG
    data.add("svhn", source, note="mine", folder=folder)
    assert datafiles.everything_in(folder / "svhn").keys() == {*BIG, "vouched.json"}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_copy_that_fails_while_files_get_their_names_leaves_nothing(number, folder, tmp_path, monkeypatch):
    source = datafiles.write(tmp_path / "source", BIG)
    datafiles.publish(monkeypatch, "svhn")
    replace, done = os.replace, []

    def fail(old, new):
        if len(done) == number:
            raise KeyboardInterrupt
        done.append(new)
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            data.add("svhn", source, note="mine", folder=folder)
    assert not datafiles.everything_in(folder)


def test_a_copy_that_fails_does_not_take_away_what_was_there(folder, tmp_path, monkeypatch):
    datafiles.publish(monkeypatch, "svhn")
    source = datafiles.write(tmp_path / "source", BIG)
    data.add("svhn", source, note="mine", folder=folder)
    before = datafiles.everything_in(folder)
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write", Full(0, OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(data.DataError):
            data.add("svhn", source, note="another note", folder=folder)
    assert datafiles.everything_in(folder) == before


def test_too_little_room_for_a_copy_is_told_before_anything_is_written(folder, tmp_path, monkeypatch):
    svhn_at(monkeypatch)
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=10))
    with pytest.raises(data.DataError, match=r"room for .* bytes, found 10 bytes free.*choose another folder"):
        data.add("svhn", datafiles.write(tmp_path / "source", BIG), folder=folder)
    assert not datafiles.everything_in(folder)
