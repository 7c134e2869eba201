"""Downloads: whole or not at all, from the first mirror that has the file, going on where they stopped."""

import logging
import sys
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


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(download, "WAIT", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def svhn_at(monkeypatch, *urls, files=BIG):
    datafiles.publish(monkeypatch, "svhn", datafiles.edition("svhn", files, urls))


def test_every_file_comes_and_can_be_read(folder, monkeypatch):
    for name, kind, files in [
        ("mnist", "idx.gz", datafiles.mnist()),
        ("fashion-mnist", "idx.gz", datafiles.mnist(12, 11)),
        ("svhn", "svhn", datafiles.svhn()),
    ]:
        with loopback.serving(files) as site:
            datafiles.publish(monkeypatch, name, datafiles.edition(kind, files, (site.url,)))
            assert data.describe([name], folder)[0].state == "missing"
            assert data.get(name, folder).state == "here"
            assert sorted(file for file, _ in site.asked) == sorted(files)
        assert len(data.load(name, folder).train) > 0
        assert datafiles.everything_in(folder / name) == files


def test_the_archive_of_cifar_is_unpacked_into_its_batches(folder, monkeypatch):
    batches = datafiles.cifar_binary()
    archive = {"cifar-10-binary.tar.gz": datafiles.tar_gz(batches)}
    with loopback.serving(archive) as site:
        known = datafiles.edition("cifar-binary.tar.gz", archive, (site.url,))
        datafiles.publish(monkeypatch, "cifar10", datafiles.edition("cifar-binary", batches), known)
        data.get("cifar10", folder)
        assert datafiles.everything_in(folder / "cifar10" / "cifar-10-batches-bin") == batches
        assert datafiles.everything_in(folder).keys() == {f"cifar10/cifar-10-batches-bin/{name}" for name in batches}
        fingerprint = data.load("cifar10", folder).fingerprint
        data.get("cifar10", folder)
        assert len(site.asked) == 1
        datafiles.publish(monkeypatch, "cifar10", known)  # batches that are not known stay in the archive
        data.get("cifar10", folder / "other")
        assert datafiles.everything_in(folder / "other" / "cifar10") == archive
        assert data.load("cifar10", folder / "other").fingerprint == fingerprint


def test_what_is_here_is_not_downloaded_again(folder, monkeypatch):
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder)
        data.get("svhn", folder)
        assert len(site.asked) == 2
        (folder / "svhn" / "test_32x32.mat").unlink()
        data.get("svhn", folder)
        assert [name for name, _ in site.asked[2:]] == ["test_32x32.mat"]
        damaged = bytearray(BIG["train_32x32.mat"])
        damaged[1000] ^= 1
        (folder / "svhn" / "train_32x32.mat").write_bytes(damaged)
        data.get("svhn", folder)
        assert [name for name, _ in site.asked[3:]] == ["train_32x32.mat"]
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_mirror_that_is_down_or_has_another_file_is_passed_over(folder, monkeypatch):
    wrong = {name: bytes(len(content)) for name, content in BIG.items()}
    page = dict.fromkeys(BIG, b"<html>Log in to use this network.</html>")
    with (
        loopback.serving({}, status=503) as busy,
        loopback.serving({}) as empty,
        loopback.serving(wrong) as other,
        loopback.serving(page) as portal,
        loopback.serving(BIG) as good,
    ):
        svhn_at(monkeypatch, loopback.closed_port(), busy.url, empty.url, other.url, portal.url, good.url)
        data.get("svhn", folder)
        assert [len(site.asked) for site in (busy, empty, other, portal, good)] == [3, 1, 1, 1, 2]
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_mirror_that_is_named_comes_first(folder, monkeypatch):
    with loopback.serving(BIG) as published, loopback.serving(BIG) as named:
        svhn_at(monkeypatch, published.url)
        data.get("svhn", folder, mirrors=[named.url.rstrip("/")])
        assert not published.asked
        assert len(named.asked) == 2


def test_if_no_mirror_has_it_every_reason_is_told_and_nothing_stays(folder, monkeypatch):
    wrong = {name: bytes(len(content)) for name, content in BIG.items()}
    nobody = loopback.closed_port()
    with loopback.serving({}) as empty, loopback.serving(wrong) as other:
        svhn_at(monkeypatch, nobody, empty.url, other.url)
        with pytest.raises(data.DataError) as caught:
            data.get("svhn", folder)
    message = str(caught.value)
    assert f"{folder / 'svhn' / 'train_32x32.mat'}: expected {FIRST:,} bytes with md5 " in message
    assert f"{nobody}train_32x32.mat: ConnectionError" in message
    assert f"{empty.url}train_32x32.mat: status 404" in message
    assert f"{other.url}train_32x32.mat: another file than the published one" in message
    assert "camhd data add" in message
    assert not folder.exists() or not list(folder.rglob("*"))


# Going on where it stopped


def test_a_connection_that_breaks_off_is_taken_up_again(folder, monkeypatch):
    with loopback.serving(BIG, breaks=[100_000, 50_000]) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder)
        assert [wanted for name, wanted in site.asked if name == "train_32x32.mat"] == [
            None,
            "bytes=100000-",
            "bytes=150000-",
        ]
        assert site.sent == sum(map(len, BIG.values()))
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_part_is_kept_and_the_next_call_goes_on_even_from_another_mirror(folder, monkeypatch):
    with loopback.serving(BIG, breaks=[40_000, 30_000, 20_000]) as site:
        svhn_at(monkeypatch, site.url)
        with pytest.raises(data.DataError, match="broke off after 90,000 of 1,229,632 bytes"):
            data.get("svhn", folder)
    left = datafiles.everything_in(folder)
    assert {name: len(content) for name, content in left.items()} == {"svhn/.partial/train_32x32.mat.part": 90_000}
    with pytest.raises(data.MissingData):
        data.load("svhn", folder)
    with loopback.serving(BIG) as other:
        svhn_at(monkeypatch, other.url)
        data.get("svhn", folder)
        assert other.asked[0] == ("train_32x32.mat", "bytes=90000-")
    assert datafiles.everything_in(folder / "svhn") == BIG


@pytest.mark.parametrize("options", [{"ranges": False}, {"length": False}, {"ranges": False, "length": False}], ids=str)
def test_a_server_that_knows_no_ranges_or_lengths_will_do(options, folder, monkeypatch):
    part = folder / "svhn" / ".partial" / "train_32x32.mat.part"
    datafiles.write(part.parent, {part.name: BIG["train_32x32.mat"][:5000]})
    with loopback.serving(BIG, **options) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder)
    assert datafiles.everything_in(folder / "svhn") == BIG


@pytest.mark.parametrize("part", [b"x" * 5000, b"x" * FIRST, b"x" * (FIRST + 1)], ids=["other", "full", "too long"])
def test_a_part_of_another_file_is_thrown_away(part, folder, monkeypatch):
    datafiles.write(folder / "svhn" / ".partial", {"train_32x32.mat.part": part})
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder)
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_range_that_was_not_asked_for_is_not_taken(folder, monkeypatch):
    datafiles.write(folder / "svhn" / ".partial", {"train_32x32.mat.part": BIG["train_32x32.mat"][:5000]})
    with loopback.serving(BIG, shift=1) as odd, loopback.serving(BIG) as good:
        svhn_at(monkeypatch, odd.url, good.url)
        data.get("svhn", folder)
        assert good.asked[0] == ("train_32x32.mat", "bytes=5000-")
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_server_that_hangs_up_without_having_said_how_much_there_is(folder, monkeypatch):
    with loopback.serving(BIG, breaks=[70_000], length=False) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder)
        assert site.asked[1] == ("train_32x32.mat", "bytes=70000-")
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_mirror_with_a_shorter_file_is_passed_over(folder, monkeypatch):
    short = {name: content[:1000] for name, content in BIG.items()}
    datafiles.write(folder / "svhn" / ".partial", {"train_32x32.mat.part": BIG["train_32x32.mat"][:5000]})
    with loopback.serving(short) as odd, loopback.serving(BIG) as good:
        svhn_at(monkeypatch, odd.url, good.url)
        data.get("svhn", folder)
        assert odd.asked == [("train_32x32.mat", "bytes=5000-"), ("train_32x32.mat", None)]
    assert datafiles.everything_in(folder / "svhn") == BIG


def test_a_file_without_end_is_cut_off(folder, monkeypatch):
    endless = {name: content + bytes(20 * 2**20) for name, content in BIG.items()}
    with loopback.serving(endless, length=False) as site:
        svhn_at(monkeypatch, site.url)
        with pytest.raises(data.DataError, match=f"more than {FIRST:,} bytes"):
            data.get("svhn", folder)
    assert not datafiles.everything_in(folder)


# And the rest


def test_progress_is_told_and_nothing_is_printed(folder, monkeypatch, capfd):
    monkeypatch.setattr(download, "_PIECE", 100_000)
    told = []
    level = logging.getLogger("pooch").level
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        data.get("svhn", folder, progress=lambda *values: told.append(values))
    first = [values for values in told if values[0] == "train_32x32.mat"]
    assert first[0] == ("train_32x32.mat", 100_000, FIRST)
    assert first[-1] == ("train_32x32.mat", FIRST, FIRST)
    assert [done for _, done, _ in first] == sorted(done for _, done, _ in first)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("pooch").level == level


@pytest.mark.parametrize("name", ["digits", "diabetes", "text", "docstrings", "quadratic"])
def test_there_is_nothing_to_get_of_what_is_bundled(name, folder):
    assert data.get(name, folder).state == "bundled"
    assert not folder.exists()


def test_without_pooch_it_is_said_what_to_install(folder, monkeypatch):
    svhn_at(monkeypatch, loopback.closed_port())
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ValueError, match=r"pooch, which is not installed: pip install 'camhd\[lab\]'"):
        data.get("svhn", folder)
    assert not folder.exists()


def test_what_is_here_needs_neither_pooch_nor_a_folder_to_write_to(folder, monkeypatch):
    svhn_at(monkeypatch, loopback.closed_port())
    datafiles.write(folder / "svhn", BIG)
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setattr(writing, "workshop", None)
    assert data.get("svhn", folder).state == "here"


def test_damaged_files_that_get_did_not_bring_are_not_replaced(folder, monkeypatch):
    place = datafiles.write(folder / "SVHN", BIG | {"test_32x32.mat": bytes(len(BIG["test_32x32.mat"]))})
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        with pytest.raises(data.DataError, match=f"Remove {place} and get it: camhd data get svhn"):
            data.get("svhn", folder)
        assert not site.asked


def test_files_that_were_vouched_for_are_not_replaced(folder, tmp_path, monkeypatch):
    mine = datafiles.svhn(3, 2)
    data.add("svhn", datafiles.write(tmp_path / "mine", mine), note="three", folder=folder)
    with loopback.serving(BIG) as site:
        svhn_at(monkeypatch, site.url)
        assert data.get("svhn", folder).note == "three"
        (folder / "svhn" / "test_32x32.mat").write_bytes(bytes(len(mine["test_32x32.mat"])))
        with pytest.raises(data.DataError, match="sha256"):
            data.get("svhn", folder)
        assert not site.asked
