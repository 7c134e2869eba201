"""A real cluster on loopback, a plan carried out on it, and who listened: `sweep_cluster.py ENGINE PLAN FOLDER`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # the latter: loopback only


@contextlib.contextmanager
def ray_cluster() -> Iterator[str]:
    """Two nodes with a core each."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@contextlib.contextmanager
def dask_cluster() -> Iterator[str]:
    """A scheduler, found by its file, and two workers."""
    from distributed import Client, LocalCluster

    places = {"host": "127.0.0.1", "dashboard_address": None, "worker_dashboard_address": None}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, silence_logs=False, **places) as cluster,
    ):
        with Client(cluster, set_as_default=False) as client:
            client.write_scheduler_file(f"{folder}/scheduler.json")
        yield f"{folder}/scheduler.json"


def listening() -> list[str]:
    """The addresses on which this process and all its descendants accept connections."""
    import psutil

    found = set()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            found |= {one.laddr.ip for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN}
    return sorted(found)


def main(engine: str, plan: str, folder: str) -> None:
    """Print what came of it as JSON, on the last line."""
    from camhd.lab import sweep

    with {"ray": ray_cluster, "dask": dask_cluster}[engine]() as address:
        outcome = sweep.run(sweep.Plan.from_file(plan), folder, engine=engine, address=address)
        hosts = listening()
    print(json.dumps({"done": list(outcome.done), "failed": len(outcome.failed), "listening": hosts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
