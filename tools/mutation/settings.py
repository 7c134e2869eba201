"""What is changed, and which tests are asked."""

from __future__ import annotations

FILES = [
    "src/camhd/combine/__init__.py", "src/camhd/combine/base.py", "src/camhd/combine/linear.py",
    "src/camhd/combine/network.py", "src/camhd/combine/regularized.py",
    "src/camhd/hyper/__init__.py", "src/camhd/hyper/base.py", "src/camhd/hyper/long_horizon.py",
    "src/camhd/rules/adabound.py", "src/camhd/rules/adam.py", "src/camhd/rules/base.py", "src/camhd/rules/probe.py",
    "src/camhd/rules/sgd.py", "src/camhd/rules/wrapped.py",
    "src/camhd/tree/bounds.py", "src/camhd/tree/cells.py", "src/camhd/tree/checkpoint.py", "src/camhd/tree/commit.py",
    "src/camhd/tree/config.py", "src/camhd/tree/kappa.py", "src/camhd/tree/learning.py", "src/camhd/tree/local.py",
    "src/camhd/tree/numbers.py", "src/camhd/tree/observer.py", "src/camhd/tree/placements.py",
    "src/camhd/tree/rates.py", "src/camhd/tree/saved.py", "src/camhd/tree/scattered.py", "src/camhd/tree/shards.py",
    "src/camhd/tree/state.py", "src/camhd/tree/sums.py",
    "src/camhd/backends/foreach.py",
    "src/camhd/backends/fused/core.py", "src/camhd/backends/fused/horizon.py", "src/camhd/backends/fused/items.py",
    "src/camhd/backends/fused/run_items.py",
    "src/camhd/backends/fused/kernels.py", "src/camhd/backends/fused/learning.py", "src/camhd/backends/fused/passes.py",
    "src/camhd/backends/fused/runs.py", "src/camhd/backends/fused/trace_core.py",
    "src/camhd/backends/fused/trace_items.py", "src/camhd/backends/fused/trace_loops.py",
]  # fmt: skip

TESTS = [
    f"tests/test_{name}.py"
    for name in (
        "bad_input", "base_rules", "baselines", "baselines_adabound", "baselines_hd", "checkpoint", "combinations",
        "contract", "divided_default", "divided_in_threads", "divided_parts", "faults", "foreach", "guards",
        "hyper_rules", "hypergradient_descent", "hypergradients", "kernels_interpreted",
        "kernels_interpreted_judgement", "kernels_interpreted_long_horizon", "kernels_interpreted_steps",
        "kernels_interpreted_threads", "levels", "limits", "long_horizon", "param_groups", "partitions", "rate_logger",
        "reference", "schedules", "snapshot", "spec", "stability_cap", "state", "theorems", "torchs_cases",
        "tree_edges", "tree_learning", "tree_parts", "with_functional", "with_precision", "with_schedulers", "wrap",
        "wrap_edges", "wrap_table",
    )
]  # fmt: skip

# Not asked: they start processes of their own, which have the code as it was, or measure memory, or make machine code.
LEFT_OUT = (
    "full_disk", "no_folder_can_be_written", "machine_code", "leak", "after_a_fork", "a_helper_that_fails",
    "two_threads", "no_memory", "number_of_threads", "many_scalars", "fresh_process", "profiler", "recorded_by",
)  # fmt: skip
