"""Plans: grids, files, functions; every way to the same runs, and what is refused."""

import json
import sys
from pathlib import Path

import pytest

from camhd.lab import sweep
from camhd.lab.data.errors import MissingData, NeedsPackage
from camhd.lab.sweep import Item, Plan, preparing, running
from camhd.lab.sweep.running import prepared
from camhd.lab.train import open_data

CASES = Path(__file__).with_name("sweep_cases.py")

TOML = """
name = "first-look"
data = "digits"
epochs = 5
options = { betas = [0.8, 0.99] }

[grid]
model = ["ffnn:8", "ffnn:16"]
optimizer = ["adam", "adamw"]
options.lr = [0.001, 0.01]
seeds = 2

[[runs]]
optimizer = "sgd:lr=0.5"
options = { momentum = 0.9 }
"""


def test_a_grid_has_every_combination_and_one_of_each_before_the_second_seed():
    plan = Plan.grid(
        model=["ffnn:8", "ffnn:16"], optimizer=["adam", "sgd:momentum=0.9"], options={"lr": [1, 2]}, seeds=3
    )
    assert len(plan) == 2 * 2 * 2 * 3
    assert [item.seed for item in plan.items] == [0] * 8 + [1] * 8 + [2] * 8
    first = [(item.model, item.optimizer, dict(item.options)) for item in plan.items[:8]]
    assert first == [
        (model, optimizer, {**more, "lr": lr})
        for model in ("ffnn:8", "ffnn:16")
        for optimizer, more in (("adam", {}), ("sgd", {"momentum": 0.9}))
        for lr in (1, 2)
    ]


def test_seeds_may_be_named():
    assert [item.seed for item in Plan.grid(seeds=[4, 2]).items] == [4, 2]
    assert [item.seed for item in Plan.grid(seed=7).items] == [7]


def test_lists_are_alternatives_in_a_grid_and_values_outside(tmp_path):
    (tmp_path / "plan.toml").write_text(TOML)
    plan = Plan.from_file(tmp_path / "plan.toml")
    assert plan.name == "first-look"
    assert len(plan) == 17
    assert {tuple(item.options["betas"]) for item in plan.items} == {(0.8, 0.99)}
    assert dict(plan.items[0].options) == {"betas": [0.8, 0.99], "lr": 0.001}
    last = plan.items[-1]
    assert (last.optimizer, dict(last.options)) == ("sgd", {"lr": 0.5, "betas": [0.8, 0.99], "momentum": 0.9})
    assert {item.epochs for item in plan.items} == {5}


def test_toml_json_and_python_give_the_same_runs(tmp_path):
    (tmp_path / "plan.toml").write_text(TOML)
    expected = Plan.from_file(tmp_path / "plan.toml").items
    (tmp_path / "plan.json").write_text(json.dumps({"runs": [item.as_dict() for item in expected]}))
    (tmp_path / "ways.py").write_text(
        "import json\nfrom pathlib import Path\nfrom camhd.lab.sweep import Item, Plan\n"
        "def plan():\n    return Plan.from_file(Path(__file__).with_name('plan.json'))\n"
        "def listed():\n    return [Item.from_dict(one) for one in json.loads("
        "Path(__file__).with_name('plan.json').read_text())['runs']]\n"
    )
    assert Plan.from_file(tmp_path / "plan.json").items == expected
    assert Plan.from_file(tmp_path / "ways.py").items == expected
    listed = Plan.from_file(f"{tmp_path / 'ways.py'}:listed")
    assert listed.items == expected
    assert listed.name == "listed"


def test_functions_are_found_beside_the_plan_by_file_and_by_module(tmp_path, monkeypatch):
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "beside_the_plan.py").write_bytes(CASES.read_bytes())
    values = {"data": "beside_the_plan:points", "epochs": 1}
    for name, model in (("file", "beside_the_plan.py:network"), ("module", "beside_the_plan:network")):
        (tmp_path / "plans" / f"{name}.json").write_text(json.dumps({**values, "model": model}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = [list(prepared(Plan.from_file(f"plans/{name}.json"))) for name in ("file", "module")]
    assert found[0] == found[1]
    assert found[0][0].startswith("points-own-network-")


def test_a_plan_of_one_run_needs_no_grid(tmp_path):
    (tmp_path / "one.toml").write_text('optimizer = "adam-hd"\nseed = 3\n')
    assert Plan.from_file(tmp_path / "one.toml") == Plan("one", (Item(optimizer="adam-hd", seed=3),), str(tmp_path))


def test_the_same_run_twice_is_one():
    assert len(prepared(Plan("twice", (Item(), Item(label="again"), Item(seed=1))))) == 2


def test_a_plan_is_prepared_in_its_order_and_reads_each_data_set_once(monkeypatch):
    read = []
    monkeypatch.setattr(preparing, "open_data", lambda data, *split: read.append(data) or open_data(data, *split))
    sets = [f"digits:{count}" for count in range(18, 8, -1)]  # more than are kept in memory
    items = [Item(model="logistic", data=data, seed=seed) for seed in range(2) for data in sets]
    preparing._source.cache_clear()
    preparing._dataset.cache_clear()
    assert [(one.item.data, one.item.seed) for one in prepared(Plan("three", items)).values()] == [
        (item.data, item.seed) for item in items
    ]
    assert sorted(data for data in read if isinstance(data, str)) == sorted(sets)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs = [", "cannot be read"),
        ("epohcs = 3", "did you mean 'epochs'?"),
        ("epochs = 0", "'epochs' must be a whole number, 1 or more, got 0."),
        ("grid = 3", "'grid' must be a table, or a list of tables, got 3."),
        ("[grid]\nseeds = 0", "'seeds' must be a whole number, 1 or more, or a list of seeds, got 0."),
        ("[grid]\nmodel = []", "'model' of a grid must have at least one alternative"),
        ("[grid]\nseed = 1\nseeds = 2", "'seed' and 'seeds' contradict each other"),
        ("[grid]\noptions = 3", "'options' of a grid must be a table"),
        ("model = 3", "'model' must be a name, or the place of a function as module:function, got 3."),
        ("runs = []", "the plan 'plan' must have at least one run, but has none."),
        ('name = "a/b"', "'name' of a plan must do as the name of a folder, got 'a/b'"),
        ('schedule = "cosinus"', "'schedule' must be cosine"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_file(tmp_path, text, message):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.toml") as refused:
        Plan.from_file(tmp_path / "plan.toml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.toml", "there is no plan 'no.toml'"),
        ("no.py", "there is no file 'no.py'"),
        ("plan.yaml", "must be a .toml, .json or .py file"),
        ("ffnn:plan", "must be a .toml, .json or .py file"),
        ("no_such_module:plan", "there is no module 'no_such_module'"),
    ],
)
def test_a_plan_that_is_not_there_is_refused(path, message):
    with pytest.raises(ValueError, match=message):
        Plan.from_file(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "lenet"}, "did you mean 'lenet5'?"),
        ({"optimizer": "adan"}, "adam"),
        ({"options": {"learning_rate": 1}}, "'learning_rate'"),
        ({"model": "no_such_module:net"}, "there is no module 'no_such_module'"),
        ({"model": "sweep_cases:no_such_net"}, "must hold a function 'no_such_net'"),
        ({"device": "cuda:7"}, "'device' 'cuda:7' cannot be used here"),
    ],
)
def test_every_run_is_checked_before_the_first_begins(tmp_path, values, message):
    plan = Plan("checked", (Item(), Item.from_dict(values)))
    with pytest.raises(ValueError, match="run 2 of the plan 'checked'") as refused:
        sweep.run(plan, tmp_path / "runs", engine="here")
    assert message in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_missing_data_is_told_as_if_there_were_no_plan(tmp_path, monkeypatch):
    monkeypatch.setenv("CAMHD_DATA", str(tmp_path / "nothing"))
    with pytest.raises(MissingData, match=r"^\S+mnist\S+: expected .*camhd data get mnist"):
        sweep.run(Plan("missing", (Item(data="mnist"),)), tmp_path / "runs", engine="here")
    assert not (tmp_path / "runs").exists()


def test_an_error_of_any_kind_says_which_run_it_is(tmp_path, monkeypatch):
    """Also one that is not made of a single text."""

    def refuse(item, device):
        raise NeedsPackage("this data set", "a package")

    monkeypatch.setattr(running, "job_of", refuse)
    with pytest.raises(ValueError, match=r"run 1 of the plan 'any' .*: this data set needs a package, which is not"):
        sweep.run(Plan("any", (Item(),)), tmp_path / "runs", engine="here")


def test_a_cluster_may_have_devices_that_this_machine_does_not_have():
    plan = Plan("far", (Item(device="cuda:7"),))
    (planned,) = prepared(plan, remote=True).values()
    assert planned.config.device == "cuda:7"


def test_options_that_are_no_plain_data_are_refused():
    with pytest.raises(TypeError, match="numbers, words, lists and mappings only"):
        Item(options={"lr": object()})
    with pytest.raises(TypeError, match=r"must be camhd\.lab\.sweep\.Item, got 'adam'"):
        Plan("wrong", ("adam",))
