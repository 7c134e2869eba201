"""The benchmark: its statistics on times that are known, and that it measures what it says. No test looks at a time."""

import gc
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import camhd
from camhd.lab import bench
from camhd.lab.bench import cases, environment, first_step, measure, peers, plot, record, report, settings, timing
from camhd.lab.bench.memory import state_bytes

TINY = cases.Case(
    "tiny",
    "Tiny",
    lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)),
    lambda: (torch.randn(3, 6), torch.randint(4, (3,))),
    "3 rows",
)
SHORT = timing.Effort(budget=1e-6, fewest=2, most=2, steps=2)


@pytest.fixture(autouse=True)
def short_yardsticks(monkeypatch):
    monkeypatch.setattr(measure, "IN_MEMORY", 1000)


@pytest.fixture
def tiny(monkeypatch):
    """The tiny model, as if it were one of the table."""
    monkeypatch.setattr(record, "CASES", {"tiny": TINY})
    monkeypatch.setattr(settings, "CASES", {"tiny": TINY})
    monkeypatch.setattr(plot, "CASES", {"tiny": TINY})


# ---------------------------------------------------------------------- timing


class Clock:
    """A clock that only moves when somebody works, and a machine that is slow at times."""

    def __init__(self, seed=0):
        self.now, self.slowness, self.random = 0, 1.0, random.Random(seed)

    def __call__(self):
        return self.now

    def work(self, microseconds):
        self.now += round(1e3 * microseconds * self.slowness * self.random.uniform(0.98, 1.02))

    def next_round(self):
        self.slowness = self.random.choice((1, 1, 2, 5))


def test_a_ratio_is_not_misled_by_slow_spells_of_the_machine():
    clock = Clock()
    fast, slow = lambda: clock.work(100), lambda: clock.work(130)
    rounds = timing.race([fast, slow], [1e-4, 1.3e-4], timing.Effort(budget=10, most=50), clock.next_round, clock)
    assert rounds.ratio(1, 0).median == pytest.approx(1.3, rel=0.02)
    assert rounds.ratio(1, 0).high < 1.4
    assert rounds.seconds(0).high > 1.5 * rounds.seconds(0).low  # though the times themselves spread widely
    assert rounds.ratio(0, 0) == timing.Spread(1, 1, 1, 50)


def test_a_share_is_the_steps_part_of_both():
    clock = Clock()
    rounds = timing.race(
        [lambda: clock.work(100)], [1e-4], timing.Effort(1, most=20, steps=1), lambda: clock.work(300), clock
    )
    assert rounds.steps_per_turn == 1
    assert rounds.share(0).median == pytest.approx(0.25, rel=0.02)


class BusyMemory:
    """A machine whose neighbours slow its memory down for many rounds on end; computing takes as long as ever."""

    def __init__(self, busy):
        self.now, self.rounds, self.busy = 0, 0, busy

    def clock(self):
        return self.now

    def next_round(self):
        self.rounds += 1

    def work(self, computing, memory):
        self.now += round(1e3 * (computing + memory * (2 if self.busy(self.rounds) else 1)))

    def race(self, **options):
        steps = [lambda: self.work(400, 200), lambda: self.work(0, 150)]
        effort = timing.Effort(budget=10, most=60, steps=1)
        return timing.race(steps, [6e-4, 1.5e-4], effort, self.next_round, self.clock, **options)


def test_rounds_in_which_the_yardstick_is_slow_do_not_count():
    machine = BusyMemory(busy=lambda round_: round_ > 20)  # most of the time
    assert machine.race().ratio(1, 0).median == pytest.approx(300 / 800)
    machine = BusyMemory(busy=lambda round_: round_ > 20)
    rounds = machine.race(yardsticks=[lambda: machine.work(50, 0), lambda: machine.work(0, 50)])
    assert rounds.quiet == list(range(20))  # the one after it as well, as the yardstick after it shows
    assert rounds.ratio(1, 0) == timing.Spread(0.25, 0.25, 0.25, 20)
    assert rounds.seconds(1).median == pytest.approx(150e-6)
    assert rounds.yardstick(1) == pytest.approx(50e-6)


def test_a_round_counts_only_if_it_is_quiet_at_both_of_its_ends():
    one, other = [1.0, 1.0, 1.0, 1.31, 1.0, 1.3, 1.0, 1.0, 1.0], [5.0] * 8 + [7.0]
    assert timing.Rounds([1.0] * 8, [[1.0] * 8], 1, [one]).quiet == [0, 1, 4, 5, 6, 7]
    assert timing.Rounds([1.0] * 8, [[1.0] * 8], 1, [one, other]).quiet == [0, 1, 4, 5, 6]
    assert timing.Rounds([1.0], [[1.0]], 1).quiet == [0]


def test_all_rounds_count_where_hardly_one_is_quiet():
    yardsticks = [1.0, 1.0, 1.0, 1.0, 1.0, *([2.0] * 8)]  # four rounds are
    assert timing.Rounds([1.0] * 12, [[1.0] * 12], 1, [yardsticks]).quiet == list(range(12))
    assert timing.Rounds([1.0] * 12, [[1.0] * 12], 1, [[1.0, *yardsticks[:-1]]]).quiet == list(range(5))


def test_a_machine_that_is_slow_all_the_time_is_taken_as_it_is():
    machine = BusyMemory(busy=lambda round_: True)
    rounds = machine.race(yardsticks=[lambda: machine.work(0, 50)])
    assert len(rounds.quiet) == 60
    assert measure.spell(rounds) == bench.results.Spell(60, 60, pytest.approx(12 * measure.IN_MEMORY / 100e-6))


def test_the_yardsticks_do_their_work():
    assert torch.equal(measure.memory_yardstick(1000)(), torch.full((1000,), 2.0))
    assert torch.equal(measure.cores_yardstick(1000)(), torch.ones(1000))


def test_a_race_ends_with_its_budget_but_never_before_the_fewest_rounds():
    def rounds(budget):
        clock = Clock()
        effort = timing.Effort(budget=budget, fewest=5, most=40, steps=1)
        return len(timing.race([lambda: clock.work(1000)], [1e-3], effort, clock=clock).prelude)

    assert rounds(1e-6) == 5
    assert 15 <= rounds(0.02) <= 21
    assert rounds(1e6) == 40


@pytest.mark.parametrize(("seconds", "steps"), [(1e-6, 20), (1e-3, 5), (1.0, 1)])
def test_a_turn_has_more_steps_the_shorter_they_are(seconds, steps):
    calls = []
    rounds = timing.race([lambda: calls.append(1)], [seconds], timing.Effort(budget=1e-9, fewest=1, most=1))
    assert rounds.steps_per_turn == len(calls) == steps


def test_every_contestant_takes_every_place_equally_often():
    orders = [timing.turn_order(4, round_) for round_ in range(8)]
    assert all(sorted(column) == [0, 0, 1, 1, 2, 2, 3, 3] for column in zip(*orders, strict=True))


def test_spread_of_one_value_is_that_value():
    assert timing.Spread.of([3.0]) == timing.Spread(3.0, 3.0, 3.0, 1)


def test_no_garbage_is_collected_during_a_race_and_it_is_afterwards():
    seen = []
    timing.race([lambda: seen.append(gc.isenabled())], [1.0], timing.Effort(budget=1e-9, fewest=1))
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_a_clock_that_stands_still_does_not_divide_by_zero():
    rounds = timing.race([lambda: None], [1.0], timing.Effort(budget=1, fewest=2, most=2), clock=lambda: 7)
    assert rounds.ratio(0, 0).median == 1


# ---------------------------------------------------------------------- contestants


NEW = ("adam-default", "nesterov-default")


def everyone():
    for rule in cases.RULES:
        yield from cases.baselines(rule, ("foreach",))
        for levels in filter(cases.RULES[rule].has, settings.SCOPES["steps"].levels):
            yield cases.camhd_contestant(rule, levels, "foreach")
    yield cases.camhd_contestant("adam", cases.TWO_LEVELS, "fused")


DEFAULT = cases.camhd_contestant("adam-default", cases.TWO_LEVELS, "fused")


@pytest.mark.parametrize("contestant", list(everyone()), ids=lambda c: f"{c.rule} {c.label}")
def test_a_contestant_moves_every_parameter(contestant):
    model = TINY.model()
    before = [(p.detach().clone(), p.grad, p.grad.clone()) for p in model.parameters()]
    stepper = contestant.build(model)
    for _ in range(3):
        stepper.step()
    for p, (old, grad, value) in zip(model.parameters(), before, strict=True):
        assert not torch.equal(p, old)
        assert p.isfinite().all()
        assert p.grad is grad
        assert torch.equal(grad, value) or contestant.label == "torch foreach"
    if contestant.library == "camhd":
        assert "step 3," in repr(stepper.holder)


def test_all_seven_rules_meet_their_torch_twins():
    assert list(cases.RULES) == ["sgd", "momentum", "nesterov", "adam", "amsgrad", "adamw", "adabound", *NEW]
    for rule in set(cases.RULES) - {"adabound"}:
        assert [b.baseline for b in cases.baselines(rule, ("foreach", "fused"))] == [
            "torch default",
            "torch foreach",
            "torch fused",
        ]
    chains = (("global", "layer"), ("global", "filter"))
    assert [b.baseline for b in cases.baselines("adabound", ("fused",), chains)] == [
        "camhd adam fused",
        "camhd adam fused",
    ]


def test_one_is_measured_against_torch_or_against_adam_with_the_same_levels():
    chains = (("global", "layer"), ("global", "filter"))
    adam, other = (cases.camhd_contestant("adam", levels, "fused") for levels in chains)
    adabound, torchs = cases.camhd_contestant("adabound", chains[0], "fused"), cases.torch_contestant("adam", "fused")
    assert adabound.is_measured_against(adam)
    assert not adabound.is_measured_against(other)
    assert adam.is_measured_against(torchs)
    assert not adam.is_measured_against(adam)


def test_a_case_gives_the_same_numbers_every_time_and_leaves_the_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two = TINY.model(), TINY.model()
    assert torch.equal(torch.rand(1), expected)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q)
        assert torch.equal(p.grad, q.grad)


def test_a_contestant_that_fails_is_reported_and_the_others_run():
    def explode(model):
        raise ZeroDivisionError("not today")

    still = cases.Contestant(
        "lazy", "adam", "", lambda m: cases.Stepper(lambda: None, None, lambda: next(m.parameters()))
    )
    broken = cases.Contestant("broken", "adam", "", explode)
    baseline = cases.torch_contestant("adam", "fused")
    results = list(measure.steps("steps", TINY, [baseline], [still, broken], SHORT, 2**30))
    errors = {r.library: r.error for r in results if isinstance(r, bench.Failure)}
    assert errors["broken"] == "ZeroDivisionError: not today"
    assert "did not move the parameters" in errors["lazy"]
    assert [r.library for r in results if isinstance(r, bench.StepTime)] == ["torch"]


def test_a_contestant_that_takes_the_gradients_away_is_refused():
    def build(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.step()
            optimizer.zero_grad()

        return cases.Stepper(step, optimizer, lambda: next(model.parameters()))

    field = measure.enter("steps", TINY, [cases.Contestant("greedy", "none", "", build)], warm_up=3)
    assert "takes the gradients away" in field.failures[0].error
    assert all(p.grad is not None for p in field.model.parameters())


def test_gradients_that_a_contestant_writes_into_are_restored_after_each_of_its_steps():
    spoiler = cases.torch_contestant("nesterov", "foreach")
    field = measure.enter("steps", TINY, [spoiler, cases.torch_contestant("nesterov", "fused")], warm_up=3)
    assert not field.spoiled()
    assert [ready.tidy for ready in field.ready] == [field.restore, timing.nothing]
    spoiled = []
    stop = timing.Effort(budget=1e-6, fewest=3, most=3)
    field.race(stop, lambda: spoiled.append(field.spoiled()), [ready.tidy for ready in field.ready])
    assert spoiled == [False] * 3
    assert all(p.isfinite().all() for ready in field.ready for p in ready.model.parameters())


def test_contestants_share_the_gradients_but_nobody_writes_to_the_parameters_of_another():
    field = measure.enter("steps", TINY, [*cases.baselines("adam", ("fused",)), DEFAULT], warm_up=3)
    last = field.ready[-1].model
    versions = [p._version for p in last.parameters()]
    for ready in field.ready[:-1]:
        ready.stepper.step()
    assert [p._version for p in last.parameters()] == versions
    assert all(p.grad is q.grad for p, q in zip(last.parameters(), field.model.parameters(), strict=True))
    assert len({p.data_ptr() for ready in field.ready for p in ready.model.parameters()}) == len(versions) * 4


def test_a_share_is_measured_with_the_gradients_of_each_backward_pass():
    seen = []

    def build(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            seen.append(next(model.parameters()).grad)
            optimizer.step()

        return cases.Stepper(step, optimizer, lambda: next(model.parameters()))

    list(measure.share(TINY, [cases.Contestant("watcher", "none", "", build)], timing.Effort(budget=1e-6, fewest=2)))
    assert len({id(grad) for grad in seen[-2:]}) == 2  # one made by each backward pass


def test_a_set_that_does_not_fit_into_memory_is_split_and_its_baselines_are_reported_once():
    contestants = [cases.camhd_contestant("adam", levels, "foreach") for levels in settings.SCOPES["steps"].levels]
    baselines = cases.baselines("adam", ("foreach",))
    room_for_one = (len(baselines) + 1) * 5 * 4 * measure.parameters(TINY.model())
    assert len(measure.fitting(TINY, len(baselines), contestants, room_for_one)) == 3
    results = list(measure.steps("steps", TINY, baselines, contestants, SHORT, room_for_one))
    assert [r.label for r in results] == [
        "torch default",
        "torch foreach",
        "torch fused",
        "camhd global,layer foreach",
        "camhd global,filter foreach",
        "camhd global,layer,parameter foreach",
    ]
    assert all(set(r.ratios) == {"torch default", "torch foreach", "torch fused"} for r in results[3:])


# ---------------------------------------------------------------------- memory


def test_state_is_counted_without_parameters_and_gradients_and_shared_memory_once():
    model = nn.Linear(10, 10, bias=False)
    model.weight.grad = torch.ones(10, 10)
    held = torch.zeros(50)
    state = {"p": model.weight, "g": model.weight.grad.view(-1)[3:], "a": held, "b": [held[10:], (held.numpy(),)]}
    assert state_bytes(SimpleNamespace(state=state, itself=state), model) == 4 * 50


def test_adam_keeps_eight_bytes_per_parameter():
    (result,) = measure.memory(TINY, [cases.torch_contestant("adam", "default")])
    steps = 4 * len(list(TINY.model().parameters()))
    assert result.bytes_per_parameter * result.parameters == pytest.approx(8 * result.parameters + steps)


# ---------------------------------------------------------------------- the first step


def test_the_warm_process_finds_what_the_cold_one_cached(monkeypatch):
    found = []

    def process(case, contestant, threads, cache):
        found.append((cache, [path.name for path in Path(cache).iterdir()]))
        (Path(cache) / "kernel").touch()
        return {"build": 1.0, "first": 2.0 + len(found), "later": 0.5, "ran_on": "fused"}

    monkeypatch.setattr(first_step, "_in_new_process", process)
    fused = cases.camhd_contestant("adam", cases.TWO_LEVELS, "fused")
    cold, warm = first_step.first_steps(TINY, [fused], threads=1, repeats=2)
    assert (cold.cache, warm.cache) == ("cold", "warm")
    assert [names for _, names in found] == [[], ["kernel"]] * 2
    assert len({cache for cache, _ in found}) == 2
    assert not any(Path(cache).exists() for cache, _ in found)
    assert (cold.first.median, warm.first.median) == (4.0, 5.0)
    assert cold.first.n == 2


@pytest.mark.thorough
def test_a_new_process_takes_its_first_step():
    foreach = cases.camhd_contestant("adam", cases.TWO_LEVELS, "foreach")
    (result,) = first_step.first_steps(cases.CASES["lenet5"], [foreach], threads=1, repeats=1)
    assert isinstance(result, bench.FirstStep), result
    assert result.cache == "none"
    assert result.ran_on == "foreach"


def test_what_the_new_process_does_is_the_same_for_torch_and_camhd():
    for library, levels in (("torch", ()), ("camhd", ["global"])):
        task = {"model": "lenet5", "library": library, "rule": "sgd", "levels": levels, "backend": "foreach"}
        times = first_step.child({**task, "threads": torch.get_num_threads()})
        assert set(times) == {"build", "first", "later", "ran_on"}


def test_a_process_that_fails_is_reported_with_its_last_line():
    wrong = cases.camhd_contestant("adam", cases.TWO_LEVELS, "cuda")
    (result,) = first_step.first_steps(cases.CASES["lenet5"], [wrong], threads=1, repeats=1)
    assert isinstance(result, bench.Failure)
    assert "'backend' must be one of" in result.error


# ---------------------------------------------------------------------- the whole


def small(**changes):
    wanted = bench.Settings(
        models=("tiny",), classes=("nesterov", "adabound"), backends=("foreach",), threads=1, budget=1e-6, sizes=(25.0,)
    )
    return replace(wanted, **changes)


def fake_process(case, contestant, threads, cache):
    return {"build": 1.0, "first": 2.0, "later": 0.5, "ran_on": contestant.backend}


def test_a_run_gives_every_measurement_that_was_asked_for(tiny, monkeypatch):
    monkeypatch.setattr(first_step, "_in_new_process", fake_process)
    started = []
    done = bench.run(small(), lambda number, total, task: started.append((number, total, task.what)))
    assert done.complete
    assert not done.failures
    assert [number for number, _, _ in started] == list(range(1, started[-1][1] + 1))
    for what in settings.WHAT:
        assert {r.rule for r in done.of(what)} == {"nesterov", "adabound"}, what
        assert any(r.library == "camhd" for r in done.of(what)), what
    for result in done.of("steps"):
        baselines = 3 if result.rule == "nesterov" else 1
        assert len(result.ratios) == baselines - (result.library == "torch")
        assert result.seconds.n >= 5
    assert {r.levels for r in done.of("steps")} == {(), *settings.SCOPES["steps"].levels}
    assert {r.parameters for r in done.of("growth")} == {25}
    assert {r.batch for r in done.of("share")} == {"3 rows"}


def test_a_record_is_json_with_all_that_a_reader_needs(tiny):
    done = bench.run(small(what=("steps", "memory")))
    data = json.loads(json.dumps(done.as_dict(), allow_nan=False))
    assert data["complete"] is True
    assert data["settings"]["classes"] == ["nesterov", "adabound"]
    assert data["environment"]["threads"] == 1
    assert data["environment"]["versions"]["camhd"] == camhd.__version__
    assert data["environment"]["versions"]["torch"] == torch.__version__
    assert set(data["results"]) == {"steps", "memory"}
    assert set(data["results"]["steps"][0]["seconds"]) == {"median", "low", "high", "n"}


def test_threads_are_as_before_after_a_run(tiny):
    before = torch.get_num_threads()
    assert bench.run(small(what=("memory",), threads=before + 1)).environment.threads == before + 1
    assert torch.get_num_threads() == before


def test_an_interrupt_keeps_what_was_measured(tiny):
    def interrupt(number, total, task):
        if number == 2:
            raise KeyboardInterrupt

    done = bench.run(small(what=("memory",)), interrupt)
    assert not done.complete
    assert {r.rule for r in done.results} == {"nesterov"}
    assert "Interrupted" in report.heading(done)


def test_an_error_ends_its_task_only(tiny, monkeypatch):
    def no_memory(case, contestants, what="memory"):
        raise MemoryError("64 GiB")

    monkeypatch.setattr(measure, "memory", no_memory)
    done = bench.run(small(what=("memory", "steps"), classes=("adam",)))
    assert [failure.error for failure in done.failures] == ["MemoryError: 64 GiB"]
    assert done.of("steps")


def test_tables_show_every_result(tiny, monkeypatch):
    monkeypatch.setattr(first_step, "_in_new_process", fake_process)
    done = bench.run(small())
    made = report.tables(done)
    assert sum(len(table.rows) for table in made) == len(done.results)
    assert all(len(row) == len(table.columns) for table in made for row in table.rows)
    ratios = [table.columns[3:-2] for table in made if table.title.startswith("Step time")]
    assert ratios == [("× torch default", "× torch foreach", "× torch fused"), ("× camhd adam foreach",)]


def test_a_step_on_another_backend_than_asked_for_is_shown_as_such():
    entry = measure.entry("steps", TINY, 10, cases.camhd_contestant("adam", ("global",), "fused"), "foreach")
    assert entry.label == "camhd global fused (ran on foreach)"


def test_a_plot_is_a_png(tiny, tmp_path):
    plot.draw(bench.run(small(what=("steps", "growth"))), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_plot_is_an_error(tiny, tmp_path):
    with pytest.raises(ValueError, match="needs 'steps', 'growth' or peers"):
        plot.draw(bench.run(small(what=("memory",))), tmp_path / "plot.png")


def test_what_was_not_asked_for_is_as_usual():
    assert bench.Settings(classes=("sgd",)).scope("steps") == replace(settings.SCOPES["steps"], classes=("sgd",))
    assert len(bench.Settings().scope("steps").models) == 6
    assert settings.SIZES == (1e4, 1e5, 1e6, 1e7, 1e8)


def test_every_usual_model_and_class_exists():
    for scope in settings.SCOPES.values():
        bench.Settings(models=scope.models, classes=scope.classes, levels=scope.levels, backends=scope.backends)


WRONG = [
    ({"what": ("step",)}, "'what' has no choice 'step'; did you mean 'steps'?"),
    ({"models": ("resnet-18",)}, "did you mean 'resnet18'?"),
    ({"classes": ("adm",)}, "did you mean 'adam'?"),
    ({"backends": ("cuda",)}, "The choices are foreach, fused."),
    ({"levels": (("global", "layers"),)}, "did you mean 'layer'?"),
    ({"threads": 0}, "'threads' must be 1 or more, got 0"),
    ({"budget": 0.0}, "'budget' must be above zero and finite, got 0"),
    ({"budget": float("nan")}, "'budget' must be above zero and finite, got nan"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_wrong_setting_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=r"^'") as refused:
        bench.Settings(**wrong)
    assert message in str(refused.value)


def test_the_commit_is_that_of_camhd_and_not_of_a_tree_around_it():
    with tempfile.TemporaryDirectory() as folder:
        assert environment._commit(Path(folder)) is None


# ---------------------------------------------------------------------- peers


def test_peers_that_are_not_installed_are_listed_without_a_version():
    missing = peers.Adapter("no-such-package-at-all", "nothing", "None", lambda module, model: None)
    (peer,) = peers.peers((missing,))
    assert (peer.package, peer.version) == ("no-such-package-at-all", None)
    assert peers.installed((missing,)) == ()


def test_the_table_has_all_peers():
    packages = {peer.package for peer in peers.peers()}
    assert packages == {
        "prodigyopt",
        "dadaptation",
        "schedulefree",
        "mechanic-pytorch",
        "gradient-descent-the-ultimate-optimizer",
        "torch_optimizer",
        "pytorch_optimizer",
        "heavyball",
    }


def test_a_peer_is_measured_and_one_that_fails_is_reported(tiny, monkeypatch):
    there = peers.Adapter("torch", "torch.optim", "Adagrad", peers._plain("Adagrad"))
    broken = peers.Adapter("torch", "torch.optim", "Missing", peers._plain("NoSuchOptimizer"))
    there_as = [replace(adapter, package=f"peer-{adapter.name}") for adapter in (there, broken)]
    monkeypatch.setattr(record, "installed", lambda: tuple(there_as))
    done = bench.run(small(what=("memory",), classes=("adam",), peers=True))
    (timed,) = done.of("peers")
    assert timed.library == "peer-Adagrad"
    assert set(timed.ratios) == {"torch fused"}
    assert [r.library for r in done.of("memory") if r.library != "camhd" and r.library != "torch"] == ["peer-Adagrad"]
    assert {f.library for f in done.failures} == {"peer-Missing"}
    assert len(done.failures) == 1
    assert "NoSuchOptimizer" in done.failures[0].error
