"""The engines: joblib does the work, here or on a cluster.

`local` starts processes on this machine; `ray` and `dask` use the cluster at an address; `here` does one run after
another in this process, to look for a mistake.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..bench.environment import cores
from ..choices import choose
from .optional import needed
from .work import Report, Task, carry_out

ENGINES = ("local", "ray", "dask", "here")
PATIENCE = 86_400  # seconds that Dask waits for its first worker, which may stand in a queue
_VARIABLES = {"ray": "RAY_ADDRESS", "dask": "DASK_SCHEDULER_ADDRESS"}


@dataclass(frozen=True)
class Engine:
    """How runs are carried out.

    Args:
        name: one of `ENGINES`.
        address: of the cluster.
        workers: runs at a time; None for as many as the cluster has cores.
        threads: of the CPU, for each run.
        gpus: of Ray's, for each run.
    """

    name: str
    address: str | None
    workers: int | None
    threads: int
    gpus: int = 0

    @property
    def remote(self) -> bool:
        """Whether runs are carried out on other machines."""
        return self.name in _VARIABLES

    @property
    def parent(self) -> int | None:
        """The process with which its workers end."""
        return os.getpid() if self.name == "local" else None

    @contextlib.contextmanager
    def connected(self) -> Iterator[Pool]:
        """What carries out tasks, connected to the cluster if there is one."""
        with contextlib.ExitStack() as stack:
            if self.name == "ray":
                size = stack.enter_context(_ray(self))
                # An actor asks for half if there is but one place: joblib would do a single job in this process.
                half = 2 if size == 1 else 1
                resources = {"num_cpus": self.threads / half, **({"num_gpus": self.gpus / half} if self.gpus else {})}
                yield Pool("ray", size, {"ray_remote_args": resources})
            elif self.name == "dask":
                client = stack.enter_context(_dask(self.address))
                yield Pool("dask", self.workers, {"client": client, "wait_for_workers_timeout": PATIENCE})
            elif self.name == "here":
                yield Pool("sequential", 1, {})
            else:
                yield Pool("loky", self.workers, {"inner_max_num_threads": self.threads})


@dataclass(frozen=True)
class Pool:
    """Carries out tasks through joblib.

    Args:
        backend: as joblib calls it.
        size: runs at a time; None for what the cluster can do.
        options: of the backend.
    """

    backend: str
    size: int | None
    options: Mapping[str, Any]

    def carry_out(self, tasks: Sequence[Task], alone: bool = False) -> list[Report]:
        """All tasks, or one that is to be alone.

        Whatever this raises is the engine's failure, because those of the runs are kept with the runs.
        """
        joblib = needed("joblib", "lab")
        at_once = 1 if alone else self.size
        # A single job would be done in this process, which must survive it: two, of which one has nothing to do.
        jobs = 1 if self.backend == "sequential" else -1 if at_once is None else max(2, at_once)
        dispatched = "2*n_jobs" if at_once == jobs or at_once is None else at_once
        with warnings.catch_warnings(), joblib.parallel_config(backend=self.backend, n_jobs=jobs, **self.options):
            # A process that has grown by a data set is replaced by joblib, and nothing is lost.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
            if self.backend == "loky":
                with _without_interrupts():
                    joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(jobs))  # starts the processes
            parallel = joblib.Parallel(batch_size=1, pre_dispatch=dispatched)
            reports: list[Report] = parallel(map(joblib.delayed(carry_out), tasks))
        return reports


def choose_engine(
    name: str, address: str | None, workers: int | None, threads: int | None, runs: int, gpus: int = 0
) -> Engine:
    """An engine, with numbers that suit this machine and the plan; they do not depend on what is left of it.

    Args:
        name: one of `ENGINES`.
        address: of the cluster.
        workers: runs at a time.
        threads: for each run.
        runs: in the plan.
        gpus: for each run, where Ray hands them out.
    """
    choose("engine", name, ENGINES)
    for word, value in (("workers", workers), ("threads", threads)):
        if value is not None and value < 1:
            raise ValueError(f"'{word}' must be 1 or more, got {value}.")
    if name in _VARIABLES:
        address = address or os.environ.get(_VARIABLES[name])
        if not address:
            example = "auto or 10.0.0.1:6379" if name == "ray" else "tcp://10.0.0.1:8786, or a scheduler file"
            raise ValueError(f"'engine' {name} needs the 'address' of a cluster, such as {example}.")
        return Engine(name, address, workers, threads or 1, gpus)
    if address is not None:
        raise ValueError(f"'address' is for the engines ray and dask, but the engine is {name!r}; leave it out.")
    if name == "here":
        return Engine(name, None, 1, threads or 1)
    workers = workers or min(max(1, cores() // (threads or 1)), runs)
    return Engine(name, None, workers, threads or max(1, cores() // workers))


@contextlib.contextmanager
def _ray(engine: Engine) -> Iterator[int]:
    """A connection; gives the number of runs for which it has room."""
    ray = needed("ray", "cluster")
    mine = not ray.is_initialized()
    if mine:
        with _reached(engine.address):
            ray.init(address=engine.address, log_to_driver=False)
    needed("ray.util.joblib", "cluster").register_ray()
    try:
        has = ray.cluster_resources()
        room = int(has.get("CPU", 0) // engine.threads)
        room = min(room, int(has.get("GPU", 0) // engine.gpus)) if engine.gpus else room
        if room < 1:
            raise ValueError(
                f"the Ray cluster at {engine.address!r} must have {engine.threads} CPUs and {engine.gpus} GPUs for a "
                f"run, but has {has.get('CPU', 0):g} and {has.get('GPU', 0):g}; start more nodes, or give fewer "
                "'threads'."
            )
        yield min(room, engine.workers or room)
    finally:
        if mine:
            ray.shutdown()


@contextlib.contextmanager
def _dask(address: str | None) -> Iterator[Any]:
    file = {"scheduler_file": address} if address and address.endswith(".json") else {"address": address}
    with _reached(address):
        client = needed("distributed", "cluster").Client(**file, set_as_default=False)
    with client:
        yield client


@contextlib.contextmanager
def _reached(address: str | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # of which a ConnectionError is one
        raise ValueError(f"'address' {address!r} must be that of a cluster, but there is none: {error}") from None


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C: it goes to all of a terminal's, but the sweep asks them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
