"""Claims: one owner at a time; what a dead owner leaves is taken over once, by one."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import pytest

from camhd.lab.records.files import take
from camhd.lab.sweep import claims, objects
from camhd.lab.sweep.claims import Claims, Observer, about_me

HOLD = """
import os, sys, time, json
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL)
import fcntl
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, sys.argv[2].encode())
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def here(tmp_path):
    return Claims(tmp_path / "claims")


class Clock:
    """A clock that a test turns."""

    def __init__(self, monkeypatch):
        self.seconds = 0.0
        monkeypatch.setattr(claims, "now", lambda: self.seconds)


def test_a_claim_has_one_owner_until_it_is_let_go(here):
    first = here.take("a", about_me())
    assert here.take("a", about_me()) is None
    assert here.take("b", about_me()) is not None
    first.release()
    second = here.take("a", about_me())
    assert second is not None
    assert [seen.run for seen in here.all()] == ["a", "b"] or [seen.run for seen in here.all()] == ["b", "a"]


def test_nothing_is_left_of_a_claim_that_was_let_go(here, tmp_path):
    here.take("a", about_me()).release()
    assert list((tmp_path / "claims").iterdir()) == []


def test_many_at_once_never_hold_the_same(here):
    holders, worst, wins = [], [], []
    start = threading.Barrier(8)

    def contend():
        start.wait()
        for number in range(150):
            claim = here.take(f"run{number % 3}", about_me())
            if claim is None:
                continue
            holders.append(number % 3)
            worst.append(holders.count(number % 3))
            wins.append(number)
            holders.remove(number % 3)
            claim.release()

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) >= 3
    assert max(worst) == 1
    assert here.all() == []


def test_a_killed_owner_of_this_machine_is_dead_at_once(here, tmp_path):
    (tmp_path / "claims").mkdir()
    about = json.dumps(about_me()) + "\n"
    path = tmp_path / "claims" / "a.1"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), about], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "held\n"
        assert here.look("a").alive is True
        assert here.take("a", about_me()) is None
        owner.kill()
        owner.wait()
    assert here.look("a").alive is False
    assert Observer().dead(here.look("a"))
    claim = here.take("a", about_me())
    assert claim is not None
    assert here.look("a").generation == 2
    claim.release()
    assert here.all() == []


def test_an_owner_elsewhere_is_dead_only_after_the_lease(here, tmp_path, monkeypatch):
    """Locks of another machine may not be seen here, so only beats tell."""
    clock = Clock(monkeypatch)
    (tmp_path / "claims").mkdir()
    path = tmp_path / "claims" / "a.1"
    path.write_text(json.dumps({"machine": "another", "beat": 1}))
    observer = Observer()
    assert here.look("a").alive is None
    assert not observer.dead(here.look("a"))
    clock.seconds = claims.LEASE - 1
    path.write_text(json.dumps({"machine": "another", "beat": 2}))
    assert not observer.dead(here.look("a"))
    clock.seconds += claims.LEASE - 1
    assert not observer.dead(here.look("a"))
    assert here.take("a", about_me()) is None
    clock.seconds += 2
    assert observer.dead(here.look("a"))
    assert here.take("a", about_me(), after=here.look("a").generation) is not None


def test_a_lock_that_is_held_elsewhere_counts_where_it_can_be_seen(here, tmp_path):
    (tmp_path / "claims").mkdir()
    path = tmp_path / "claims" / "a.1"
    path.write_text(json.dumps({"machine": "another", "beat": 1}))
    with path.open("r+b") as file:
        take(file.fileno())
        assert here.look("a").alive is True
        assert not Observer().dead(here.look("a"))


def test_only_one_takes_over_and_the_old_owner_notices(here):
    """As after a pause that was longer than the lease."""
    old = here.take("a", about_me())
    new = here.take("a", about_me(), after=1)
    assert new is not None
    assert here.take("a", about_me(), after=1) is None
    assert old.beat() is False
    assert new.beat(step=3, steps=9) is True
    assert here.look("a").about["step"] == 3
    old.release()
    assert here.look("a") is not None, "what belongs to another was removed"
    new.release()
    assert here.all() == []


def test_an_owner_whose_claim_is_gone_has_lost_it(here, tmp_path):
    old = here.take("a", about_me())
    (tmp_path / "claims" / "a.1").unlink()
    another = here.take("a", about_me())
    assert old.beat() is False
    old.release()
    assert another.beat() is True


def test_a_claim_that_is_just_being_made_is_not_dead(here, tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "a.1").touch()
    assert here.look("a").alive is None
    assert here.look("a").about == {}
    assert here.take("a", about_me()) is None


def test_a_file_system_without_locks_leaves_it_to_the_beats(here, monkeypatch):
    def no_locks(handle, shared=False):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(claims, "take", no_locks)
    claim = here.take("a", about_me())
    assert here.look("a").alive is None
    assert here.take("a", about_me()) is None
    assert claim.beat() is True


# The same for an object path, where nothing can be locked


@pytest.fixture
def far(tmp_path):
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield lambda machine: objects.Objects("memory://bucket/sweep", tmp_path / machine)
    store.store.clear()


def test_an_object_path_has_one_owner_over_all_machines(far):
    one, other = far("one"), far("other")
    first = one.claim("a", about_me())
    assert one.claim("a", about_me()) is None
    assert other.claim("a", about_me()) is None
    assert first.beat(step=1) is True
    first.release()
    second = other.claim("a", about_me())
    assert second is not None
    second.release()
    assert other.claims() == []


def test_an_object_path_is_taken_over_at_once_on_the_same_machine_and_later_elsewhere(far):
    one, other = far("one"), far("other")
    dead = one.claim("a", about_me())
    assert [seen.alive for seen in one.claims()] == [True]
    dead._local.release()  # as when its process ends
    assert [seen.alive for seen in one.claims()] == [False]
    assert [seen.alive for seen in other.claims()] == [None]
    assert other.claim("a", about_me()) is None
    taken = one.claim("a", about_me())
    assert taken is not None
    assert dead.beat() is False
    late = other.claim("a", about_me(), after=2)
    assert late is not None
    assert taken.beat() is False
    taken.release()
    assert late.beat() is True
    late.release()
    assert other.claims() == []


def test_where_a_store_cannot_create_the_last_to_write_has_it(far, monkeypatch):
    one, other = far("one"), far("other")
    system = one._system
    plain = type(system).pipe_file
    calls = []

    def ignores_mode(path, value, mode="overwrite", **options):
        if mode == "create" and not calls:
            calls.append(path)
            assert other.claim("a", about_me(pid=-1)) is not None  # comes in between, and then is overwritten
            return None
        return plain(system, path, value)

    monkeypatch.setattr(system, "pipe_file", ignores_mode)
    assert one.claim("a", about_me()) is None
    assert len(other.claims()) == 1


def test_the_folder_of_this_machine_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(tmp_path, "camhd", "sweeps") in objects.Objects("memory://bucket")._scratch.parents
