"""The two backends: the same numbers, on anything; and what only one of them must do."""

import copy
import ctypes
import gc
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from functools import lru_cache
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import camhd
from camhd.backends import select

pytestmark = pytest.mark.usefixtures("papers_form")

FAST = {"hyper_lr": 1e-6, "combine_lr": 0.01}
RULES = {
    "sgd": lambda p, **o: camhd.SGD(p, lr=0.05, weight_decay=0.01, **o),
    "momentum": lambda p, **o: camhd.SGD(p, lr=0.05, momentum=0.9, dampening=0.2, **o),
    "nesterov": lambda p, **o: camhd.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01, **o),
    "adam": lambda p, **o: camhd.Adam(p, lr=0.01, **o),
    "adam-l2": lambda p, **o: camhd.Adam(p, lr=0.01, weight_decay=0.1, maximize=True, **o),
    "amsgrad": lambda p, **o: camhd.Adam(p, lr=0.01, amsgrad=True, betas=(0.9, 0.9), **o),
    "adamw": lambda p, **o: camhd.AdamW(p, lr=0.01, weight_decay=0.3, **o),
    "amsgrad-w": lambda p, **o: camhd.AdamW(p, lr=0.01, weight_decay=0.3, amsgrad=True, **o),
    "adabound": lambda p, **o: camhd.AdaBound(p, lr=0.01, gamma=0.01, **o),
    "amsbound": lambda p, **o: camhd.AdaBound(p, lr=0.01, amsbound=True, bounds="paper", decay_bound="sqrt", **o),
}
CHAINS = {
    "global": {"levels": ("global",), **FAST},
    "two": {"levels": ("global", "layer"), **FAST},
    "filter": {"levels": ("global", "filter"), "weights": (0.8, 0.2), "decay": 0.01, "lr_limit": 0.02, **FAST},
    "parameter": {"levels": ("parameter",), **FAST},
    "three": {"levels": ("global", "layer", "parameter"), "max_lr": 0.06, **FAST},
    "softmax": {"levels": ("global", "layer", "unit", "parameter"), "combine": "softmax", **FAST},
    "mean": {"combine": "fixed", "hyper_lr": 1e-2, "hyper_scale": "mean"},
    "cosine": {"hyper_rule": "multiplicative", "levels": ("global", "unit")},
    "cosine-deep": {"hyper_rule": "multiplicative", "levels": ("global", "layer", "unit", "parameter")},
    "horizon": {"hyper_rule": "long_horizon", "max_lr": 0.06},
    "horizon-deep": {
        "hyper_rule": "long_horizon",
        "levels": ("global", "layer", "unit"),
        "combine": "softmax",
        "decay": 0.01,
        "lr_limit": 0.02,
    },
    "horizon-per-layer": {"hyper_rule": "long_horizon", "combine": camhd.combine.PerLayer(), "combine_lr": 0.01},
    "per-layer": {"combine": camhd.combine.PerLayer(), "levels": ("global", "unit"), **FAST},
    "network": {"combine": camhd.combine.Network(), **FAST},
    "regularized": {"combine": camhd.combine.Regularized(1e5, over_time=1e4), "hyper_lr": 1e-6},
}
SHAPES = [(5, 3), (5,), (4, 1), (1,), (), (0,), (3, 0), (2, 3, 4, 3), (1, 2, 1, 2, 1, 2, 2), (70_000,), (2, 40_000)]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def tensors(dtype, channels_last=False):
    random = torch.Generator().manual_seed(0)
    made = []
    for i, shape in enumerate(SHAPES):
        value = torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
        if channels_last and value.dim() == 4:
            value = value.to(memory_format=torch.channels_last)
        made.append((f"l{i // 2}.{'weight' if i % 2 == 0 else 'bias'}", nn.Parameter(value)))
    return made


@lru_cache(maxsize=60)
def noise(t, shapes, dtype):
    random = torch.Generator().manual_seed(t)
    return [0.02 * torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for shape in shapes]


def train(named, opt, steps, start=0, skip=()):
    for t in range(start, start + steps):
        drawn = noise(t, tuple(p.shape for _, p in named), named[0][1].dtype)
        for i, (_, p) in enumerate(named):
            p.grad = None if (t, i) in skip else torch.add(drawn[i], p.detach(), alpha=0.1)
        opt.step()


def everything(opt):
    """All rates (by level), weights and parameters of an optimizer."""
    state = opt.tree.state
    levels = [[level.rates] for level in state.levels] + [[leaf.rates for leaf in state.leaves]]
    params = [p.detach() for group in opt.param_groups for p in group["params"]]
    parts = [*levels, list(state.weights.values()), params]
    return [torch.cat([value.flatten().double() for value in part]) for part in parts if part]


def same(one, other):
    return all(map(torch.equal, one, other))


def pair(rule, chain, dtype=torch.float64, **more):
    found = []
    for backend in ("foreach", "fused"):
        named = tensors(dtype, **more)
        found.append((named, RULES[rule](named, backend=backend, **CHAINS[chain])))
    return found


@pytest.mark.alike(6)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("rule", RULES)
def test_both_backends_give_the_same_numbers_on_odd_shapes(rule, chain, dtype):
    (plain, slow), (kernels, fast) = pair(rule, chain, dtype)
    if chain.startswith("horizon"):  # plain torch sums 80,000 products in single precision, which is good to 4e-5
        plain = [(name, nn.Parameter(p.detach().double())) for name, p in plain]
        slow = RULES[rule](plain, backend="foreach", **CHAINS[chain])
    skip = {(3, 0), (4, 7), (4, 8), (5, 0)}
    train(plain, slow, 30, skip=skip)
    train(kernels, fast, 30, skip=skip)
    assert "backend fused" in repr(fast)
    for one, other in zip(everything(slow), everything(fast), strict=True):
        apart = (one - other).abs() > TOLERANCE[dtype] * one.abs().amax()
        # The cosine of a single scalar is the sign of a product, and rounding decides it where that is near 0.
        signs = chain.startswith("cosine") or chain == "horizon-deep"
        decided_by_rounding = 1e-3 * one.numel() if signs and dtype == torch.float32 else 0
        assert apart.sum() <= decided_by_rounding
    assert slow.skipped == fast.skipped == 0


@pytest.mark.parametrize("rule", ["nesterov", "adam", "adamw", "adabound"])
def test_both_backends_give_the_same_numbers_in_channels_last(rule):
    (plain, slow), (kernels, fast) = pair(rule, "filter", channels_last=True)
    train(plain, slow, 10)
    train(kernels, fast, 10)
    assert "backend fused" in repr(fast)
    for one, other in zip(everything(fast), everything(slow), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("chain", ["filter", "three", "horizon-deep"])
def test_a_parameter_that_gets_other_memory_in_mid_training_goes_on(chain):
    """model.to(memory_format=…) gives parameters other strides, and a loaded state may have yet others."""
    (plain, slow), (kernels, fast) = pair("adam", chain)
    for named, opt in ((plain, slow), (kernels, fast)):
        train(named, opt, 3)
        for _, p in named:
            if p.dim() == 4:
                p.data = p.data.to(memory_format=torch.channels_last)
        train(named, opt, 3, start=3)
        opt.load_state_dict(copy.deepcopy(opt.state_dict()))
        train(named, opt, 3, start=6)
    for one, other in zip(everything(fast), everything(slow), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_parameters_that_leave_the_cpu_in_mid_training_leave_the_kernels():
    """Their address is not one that a CPU kernel may use. Meta tensors stand for a device here."""
    named = tensors(torch.float32)
    opt = RULES["adam"](named, **CHAINS["two"])
    train(named, opt, 2)
    for _, p in named:
        p.grad = None
        torch.utils.swap_tensors(p, nn.Parameter(p.detach().to("meta")))  # as model.to(device) may do
        p.grad = torch.empty_like(p)
    fused = opt.backend._fused
    assert fused is not None
    assert fused.memory.look_up() is None


@pytest.mark.parametrize("chain", ["two", "three", "horizon", "horizon-deep"])
@pytest.mark.parametrize("rule", ["momentum", "nesterov", "adam", "adamw", "adabound"])
def test_backends_may_take_turns(rule, chain):
    """A state written by one backend is taken up by the other, and by a copy, as if nothing had happened."""
    (plain, slow), (kernels, fast) = pair(rule, chain)
    train(plain, slow, 12)
    train(kernels, fast, 4)
    fast.backend = select.Backend("foreach")
    train(kernels, fast, 3, start=4)
    fast.backend = select.Backend("fused")
    train(kernels, fast, 2, start=7)
    kernels, fast = copy.deepcopy((kernels, fast))
    train(kernels, fast, 1, start=9)
    fast.load_state_dict(copy.deepcopy(fast.state_dict()))
    train(kernels, fast, 2, start=10)
    for one, other in zip(everything(fast), everything(slow), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_param_groups_schedules_and_added_groups_are_the_same_in_both():
    found = []
    for backend in ("foreach", "fused"):
        named = tensors(torch.float64)
        groups = [{"params": named[:4], "lr": 0.02}, {"params": named[4:8], "weight_decay": 0.1, "hyper_lr": 1e-5}]
        opt = camhd.AdamW(groups, lr=0.01, levels=("global", "layer"), backend=backend, restarts=(9,), **FAST)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[0.02, 0.01], total_steps=20)
        for t in range(8):
            train(named[:8], opt, 1, start=t)
            scheduler.step()
        opt.add_param_group({"params": named[8:]})
        train(named, opt, 6, start=8)
        found.append(everything(opt))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("chain", ["two", "three", "horizon"])
def test_the_kernels_guard_as_plain_torch_does(poison, chain):
    for _, (named, opt) in zip(("foreach", "fused"), pair("sgd", chain), strict=True):
        train(named, opt, 3)
        rates = [level.rates.clone() for level in opt.tree.state.all_levels()]
        weights = opt.combination()
        named[0][1].grad[0, 0] = poison
        opt.step()
        assert opt.skipped == 1
        assert all(map(torch.equal, rates, [level.rates for level in opt.tree.state.all_levels()]))
        assert opt.combination() == weights


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: camhd.Adam([nn.Parameter(torch.ones(3, dtype=torch.bfloat16))]), "the parameters are bfloat16"),
        (lambda: camhd.Adam([nn.Parameter(torch.ones(3, 4)[:, ::2])]), "the memory of '0' has gaps"),
        (lambda: camhd.Adam(nn.Linear(3, 2), levels=(camhd.levels.Unit(axis="input"),)), "not contiguous in memory"),
        (lambda: camhd.Adam(nn.Linear(3, 2), levels=("parameter",), combine=camhd.combine.Network()), "'parameter'"),
        (lambda: camhd.wrap(torch.optim.SGD(nn.Linear(3, 2).parameters())), "has no kernels"),
    ],
)  # fmt: skip
def test_what_the_kernels_cannot_do_falls_to_plain_torch_and_says_so(make, reason):
    opt = make()
    for param in opt.param_groups[0]["params"]:
        param.grad = torch.ones_like(param)
    opt.step()
    assert reason in repr(opt)


@pytest.mark.parametrize("trouble", ["missing", "old", "broken"])
def test_without_a_working_numba_steps_are_plain_torch_and_say_so(trouble, monkeypatch):
    import numba

    if trouble == "missing":
        monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: None)
    elif trouble == "old":
        monkeypatch.setattr(numba, "__version__", "0.55.1")
    else:
        monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: "there")
        monkeypatch.setitem(sys.modules, "numba", None)  # importing it raises
    named = tensors(torch.float32)
    opt = camhd.Adam(named, backend="fused")
    train(named, opt, 2)
    expected = {
        "missing": "Numba is not installed: pip install camhd[fused]",
        "old": "Numba 0.55.1 is too old",
        "broken": "Numba does not work here",
    }
    assert f"backend foreach ({expected[trouble]}" in repr(opt)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="'backend' must be one of 'auto', 'foreach', 'fused', got 'cuda'"):
        camhd.Adam(nn.Linear(2, 2), backend="cuda")


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "unit"), ("global", "layer", "parameter")])
@pytest.mark.parametrize("rule", RULES)
def test_plain_torch_never_waits_for_the_device(rule, levels):
    """Meta tensors raise on any read-back."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(3, 4)).to("meta")
    opt = RULES[rule](model, levels=levels, **FAST)
    for _ in range(3):
        for param in model.parameters():
            param.grad = torch.ones_like(param)
        opt.step()


@pytest.mark.parametrize("torchs_threads", [True, False], ids=["torch's threads", "our own"])
def test_two_optimizers_step_in_two_threads(torchs_threads, monkeypatch):
    from camhd.backends.fused import threads as helpers

    monkeypatch.setattr(helpers, "how_many", lambda scalars: 2)
    if not torchs_threads:
        monkeypatch.setattr(helpers, "torchs_are_there", lambda: False)
    expected = []
    for _ in range(2):
        named = tensors(torch.float32)
        opt = RULES["adam"](named, **CHAINS["two"])
        train(named, opt, 20)
        expected.append(everything(opt))
    found, errors = [None, None], []

    def work(i):
        try:
            named = tensors(torch.float32)
            opt = RULES["adam"](named, **CHAINS["two"])
            train(named, opt, 20)
            found[i] = everything(opt)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(map(same, found, expected))


def _step_in_child(queue):
    named = tensors(torch.float32)
    opt = RULES["adam"](named, **CHAINS["two"])
    train(named, opt, 5)
    queue.put([value.tolist() for value in everything(opt)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_step_after_a_fork_works(monkeypatch):
    from camhd.backends.fused import threads

    monkeypatch.setattr(threads, "how_many", lambda scalars: 2)
    named = tensors(torch.float32)
    opt = RULES["adam"](named, **CHAINS["two"])
    train(named, opt, 5)  # the parent has used torch's threads
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_step_in_child, args=(queue,))
    child.start()
    found = [torch.tensor(value, dtype=torch.float64) for value in queue.get()]
    child.join(60)
    assert child.exitcode == 0
    assert same([value.flatten() for value in found], [value.flatten() for value in everything(opt)])


@pytest.mark.parametrize("chain", ["filter", "three", "horizon-deep"])
def test_sums_do_not_depend_on_the_number_of_threads_nor_on_whose_they_are(chain, monkeypatch):
    from camhd.backends.fused import threads

    assert threads.torchs_are_there(), "torch on Linux brings an OpenMP runtime"
    results = []
    for count, ours in ((1, False), (2, False), (2, True), (3, False), (3, True), (3, False)):
        with monkeypatch.context() as patch:
            patch.setattr(threads, "how_many", lambda scalars, count=count: count)
            if ours:
                patch.setattr(threads, "torchs_are_there", lambda: False)
            named = tensors(torch.float32)
            opt = RULES["adam"](named, **CHAINS[chain])
            train(named, opt, 5)
            results.append(everything(opt))
    assert all(same(results[0], other) for other in results[1:])


def test_kernels_use_as_many_threads_as_torch():
    from camhd.backends.fused import threads

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert threads.how_many(10**9) == 1
        torch.set_num_threads(2)
        assert threads.how_many(10**9) == 2
        assert threads.how_many(1000) == 1
    finally:
        torch.set_num_threads(before)


def test_a_helper_that_fails_says_so_and_is_there_for_the_next_step(monkeypatch):
    from camhd.backends.fused import threads

    said, served = [], threading.Event()
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: said.append(str(error)))

    def fail(address):
        raise RuntimeError("in a helper")

    threads._ask_for_help(1, fail, 0, None)
    threads._ask_for_help(1, lambda address: served.set(), 0, None)
    assert served.wait(30)
    assert said == ["in a helper"]


def test_what_a_late_helper_reads_stays_when_the_next_step_has_another_number_of_threads(monkeypatch):
    """It has the addresses of the step that it was called for."""
    from camhd.backends.fused import block as at
    from camhd.backends.fused import threads

    called = []
    monkeypatch.setattr(threads, "torchs_are_there", lambda: False)
    monkeypatch.setattr(threads, "_ask_for_help", lambda *words: called.append(words))  # nobody comes for now
    named = tensors(torch.float32)
    opt = RULES["adam"](named, **CHAINS["two"])
    for count in (3, 2):
        monkeypatch.setattr(threads, "how_many", lambda scalars, count=count: count)
        train(named, opt, 1)
        if count == 3:
            _, function, address, arrays = called.pop()
            team = opt.backend._fused.plan.team
            read = {place: weakref.ref(team.block._arrays[place]) for place in (at.RANGES, at.CONTROL, at.ITEMS)}
    before = everything(opt)
    del team, called[:]
    gc.collect()
    assert [arrays[0][place] for place in read] == [array().ctypes.data for array in read.values()]
    function(address)  # it comes, and finds nothing to do
    assert same(everything(opt), before)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["foreach", "fused"])
def test_a_sum_over_many_scalars_is_accurate(backend):
    """Against float64: products that mostly agree in sign, and products that mostly cancel."""
    size = 100_000_000
    random = torch.Generator().manual_seed(0)
    first, second = torch.randn(size, generator=random), torch.randn(size, generator=random)
    for agreement in (0.0, 0.5):
        second.add_(first, alpha=agreement)
        exact = sum(
            float(a.double() @ b.double()) for a, b in zip(first.split(2**22), second.split(2**22), strict=True)
        )
        param = nn.Parameter(torch.zeros(size))
        opt = camhd.SGD([param], lr=1e-9, levels=("global",), hyper_lr=1e-6, max_change=None, backend=backend)
        for grad in (first, second if exact > 0 else -second):
            param.grad = grad
            opt.step()
        # What float32 products can carry: 1e-5 of the sum, or of its size were the signs at random.
        assert opt.rates()["global"] / 1e-6 == pytest.approx(abs(exact), rel=1e-5, abs=1e-5 * size**0.5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("foreach", marks=pytest.mark.thorough), "fused"])
def test_many_steps_leak_nothing(backend):
    named = [(name, p) for name, p in tensors(torch.float32) if p.numel() < 1000]
    opt = RULES["adam"](named, backend=backend, **CHAINS["two"])
    train(named, opt, 20)
    gc.collect()
    before = _tensors_alive()
    blocks, handed_out = sys.getallocatedblocks(), _handed_out()
    for _ in range(10_000):
        opt.step()
    gc.collect()
    assert _tensors_alive() == before
    assert sys.getallocatedblocks() - blocks < 5_000  # not one of Python's for every other step
    assert _handed_out() - handed_out < 2**20  # nor a hundred bytes of torch's or a kernel's for each


def test_a_fused_step_asks_for_no_memory_after_the_third():
    """Torch's allocator is not called, and Python keeps nothing."""
    named = tensors(torch.float32)
    opt = RULES["adam"](named, **CHAINS["two"])
    train(named, opt, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in range(5):
            opt.step()
    assert not [event.name for event in profile.events() if event.cpu_memory_usage or event.self_cpu_memory_usage]
    tracemalloc.start()
    try:
        for _ in range(5):
            opt.step()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            opt.step()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 2_000
    finally:
        tracemalloc.stop()


THREE_STEPS = """
import torch, camhd
p = torch.nn.Parameter(torch.ones(4, 3))
opt = camhd.Adam([("a.weight", p)], backend="fused")
for _ in range(3):
    p.grad = torch.ones(4, 3)
    opt.step()
assert "backend fused" in str(opt), opt
print(float(p.sum()))
"""


def three_steps(kept_in, first=""):
    """Another process that takes three fused steps, its machine code kept in a folder of its own; what it prints."""
    paths = {"NUMBA_CACHE_DIR": str(kept_in), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment, command = {**os.environ, **paths, "NUMBA_OPT": "0"}, [sys.executable, "-c", first + THREE_STEPS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_full_disk_costs_time_and_nothing_else(tmp_path):
    """Numba may find a folder and no room in it. Every kernel is compiled (roughly: it is used thrice), none kept."""
    no_room = """
import errno, sys
from numba.core import caching

sys.executable = ""  # another process would find room

def no_room(self, key, data):
    raise OSError(errno.ENOSPC, "No space left on device")

caching.IndexDataCacheFile.save = no_room
"""
    assert three_steps(tmp_path, no_room) < 12
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("error", [EOFError, pickle.UnpicklingError, KeyError, ImportError, TypeError, struct.error])
def test_kept_machine_code_that_cannot_be_read_is_as_good_as_none(error):
    jit = pytest.importorskip("camhd.backends.fused.jit", reason="needs camhd[fused]")

    def load(signature, target):
        raise error("what a damaged file may raise")

    cache = SimpleNamespace(save_overload=lambda signature, made: None, load_overload=load)
    jit._make_optional(cache)
    assert cache.load_overload(None, None) is None


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"\x80\x04cos\nno_such_name\n."], ids=["empty", "a name that is not there"])
def test_damaged_machine_code_costs_time_and_nothing_else(tmp_path, damage):
    """Files of inner kernels: those of the step itself are gone, so that it is compiled anew, from them."""
    before = three_steps(tmp_path)
    for path in [*tmp_path.rglob("*.nbc"), *tmp_path.rglob("*.nbi")]:
        if path.name.startswith("entries."):
            path.unlink()
        elif path.suffix == ".nbc":
            path.write_bytes(damage)
    assert three_steps(tmp_path) == pytest.approx(before)


def test_of_several_that_need_the_same_kernels_one_compiles_and_the_others_wait(tmp_path, monkeypatch):
    entries = pytest.importorskip("camhd.backends.fused.entries", reason="needs camhd[fused]")
    kept, compiled = threading.Event(), []

    def compile_slowly(name, traced):
        compiled.append((name, traced))
        time.sleep(0.1)
        kept.set()

    monkeypatch.setattr(entries, "FunctionCache", lambda function: SimpleNamespace(cache_path=tmp_path / "new"))
    monkeypatch.setattr(entries, "_is_kept", lambda function: kept.is_set())
    monkeypatch.setattr(entries, "_compile_elsewhere", compile_slowly)
    at_once = [threading.Thread(target=entries._see_that_it_is_kept, args=("float32", True)) for _ in range(4)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    assert compiled == [("float32", True)]


def test_kernels_compile_where_no_folder_can_be_written():
    program = """
from camhd.backends.fused import jit

@jit.kernel_for_python
def twice(x):
    return 2 * x

assert twice(3) == 6
print(type(twice._cache).__name__)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/dev/null/none", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "NullCache"


def _tensors_alive():
    return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    )


def _handed_out():
    """Bytes that malloc has handed out; what is resident depends on what the kernel pages in and out, too."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        pytest.skip("needs glibc 2.33 to ask how much memory is in use")
    ask.restype = _Mallinfo
    found = ask()
    return found.uordblks + found.hblkhd


def test_machine_code_on_disk_is_marked_with_all_of_the_kernels_sources():
    """Numba looks only at the file of the function it keeps, but kernels call each other across files."""
    from camhd.backends.fused import core, jit, kernels, learning, passes

    for kernel in (passes.observe, passes.move, core.work, learning.learn, kernels.adam_move):
        assert kernel._cache._cache_file._source_stamp == jit.FINGERPRINT
