"""Who shares a rate with whom: the levels' partitions, from modules, from names, from neither."""

import pytest
import torch
from torch import nn

import camhd
from camhd.levels import lay_out, level, owners_of, slots_of

pytestmark = pytest.mark.usefixtures("papers_form")

CHAIN = [level(name) for name in ("global", "layer", "gate", "unit")]


def layout_of(model, *levels, module=True):
    opt = torch.optim.SGD(model.named_parameters(), lr=1.0)
    slots = slots_of(opt.param_groups, owners_of(model) if module else None)
    return lay_out([level(one) for one in levels], slots)


def groups_of(layout, name):
    """For each parameter, the full map from its scalars to the groups of a level."""
    partition = next(p for p in layout.partitions if p.level.name == name)
    maps, start = {}, 0
    for slot, shape in zip(layout.slots, layout.cell_shapes, strict=True):
        count = torch.Size(shape).numel()
        maps[slot.name] = partition.groups[start : start + count].reshape(shape).expand(slot.shape)
        start += count
    return maps


class Stacked(nn.Module):
    def __init__(self, recurrent):
        super().__init__()
        self.rnn = recurrent
        self.head = nn.Linear(4, 2)


@pytest.mark.parametrize("module", [True, False], ids=["module", "names"])
@pytest.mark.parametrize(
    ("recurrent", "labels"),
    [
        (nn.LSTM(3, 4, num_layers=2, bidirectional=True), ("input", "forget", "cell", "output")),
        (nn.LSTM(3, 5, proj_size=2), ("input", "forget", "cell", "output")),
        (nn.GRU(3, 4, num_layers=2), ("reset", "update", "new")),
        (nn.LSTMCell(3, 4), ("input", "forget", "cell", "output")),
        (nn.GRUCell(3, 4), ("reset", "update", "new")),
    ],
    ids=["LSTM", "LSTM-projected", "GRU", "LSTMCell", "GRUCell"],
)
def test_a_gate_is_a_block_of_rows_in_all_four_tensors(recurrent, labels, module):
    layout = layout_of(Stacked(recurrent), "global", "gate", module=module)
    maps = groups_of(layout, "gate")
    stacks = {name.rsplit("_", 1)[-1] if "_l" in name else "" for name in maps if "weight_ih" in name}
    for name, ids in maps.items():
        if name.startswith("head") or "_hr" in name:
            assert ids.unique().numel() == 1
            continue
        rows = ids.reshape(ids.shape[0], -1)
        per_gate = ids.shape[0] // len(labels)
        blocks = rows.reshape(len(labels), per_gate, -1)
        assert (blocks == blocks[:, :1, :1]).all(), "a gate's rows share one rate"
        assert blocks[:, 0, 0].unique().numel() == len(labels), "and gates differ"
        partner = name.replace("weight", "bias")
        assert torch.equal(maps[partner], ids.reshape(ids.shape[0], -1)[:, 0])
        assert torch.equal(maps[name.replace("_ih", "_hh")].reshape(ids.shape[0], -1)[:, 0], rows[:, 0])
    parts = next(p for p in layout.partitions if p.level.name == "gate")
    assert {family.labels for family in parts.families} >= {labels}
    assert len(stacks) >= 1


def test_layers_parts_and_directions_of_an_lstm_have_gates_of_their_own():
    layout = layout_of(Stacked(nn.LSTM(3, 4, num_layers=2, bidirectional=True)), "gate")
    names = {family.name for family in layout.partitions[0].families}
    assert names == {"rnn.l0", "rnn.l0_reverse", "rnn.l1", "rnn.l1_reverse", "head"}


def test_a_unit_is_a_row_and_the_matching_entry_of_the_bias():
    model = nn.Sequential(nn.Conv2d(3, 5, 2), nn.BatchNorm2d(5), nn.Linear(7, 4))
    maps = groups_of(layout_of(model, "global", "unit"), "unit")
    for layer, rows in (("0", 5), ("1", 5), ("2", 4)):
        weight, bias = maps[f"{layer}.weight"], maps[f"{layer}.bias"]
        flat = weight.reshape(rows, -1)
        assert (flat == flat[:, :1]).all()
        assert torch.equal(flat[:, 0], bias)
        assert bias.unique().numel() == rows
    assert len(set().union(*[set(m.flatten().tolist()) for m in maps.values()])) == 14


@pytest.mark.parametrize("groups", [1, 2])
def test_units_of_convolutions_follow_their_channels(groups):
    """Perturb one output (input) channel's unit and see that only that channel changes (matters)."""
    for conv in (nn.Conv2d(4, 6, 3, groups=groups), nn.ConvTranspose2d(4, 6, 3, groups=groups)):
        model = nn.Sequential(conv).double()
        x = torch.randn(1, 4, 5, 5, dtype=torch.float64)
        before = conv(x)
        maps = groups_of(layout_of(model, camhd.levels.Unit()), "unit")
        for channel in range(6):
            saved = [p.detach().clone() for p in conv.parameters()]
            with torch.no_grad():
                for name, p in model.named_parameters():
                    p[maps[name] == channel] += 1.0
            changed = (conv(x) - before).abs().amax((0, 2, 3)) > 1e-9
            assert changed.nonzero().flatten().tolist() == [channel]
            with torch.no_grad():
                for p, old in zip(conv.parameters(), saved, strict=True):
                    p.copy_(old)
        columns = groups_of(layout_of(model, camhd.levels.Unit(axis="input")), "unit")["0.weight"]
        for channel in range(4):
            masked = conv.weight.detach().clone()
            with torch.no_grad():
                conv.weight[columns != channel] = 0
            slope = torch.autograd.functional.jacobian(conv, x).abs().sum((0, 1, 2, 3, 4, 6, 7))
            assert (slope > 0).nonzero().flatten().tolist() == [channel]
            with torch.no_grad():
                conv.weight.copy_(masked)


def test_a_bias_is_one_unit_of_its_own_on_the_input_side():
    maps = groups_of(layout_of(nn.Sequential(nn.Linear(3, 2)), camhd.levels.Unit(axis="input")), "unit")
    assert maps["0.weight"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert maps["0.bias"].tolist() == [3, 3]


def test_an_attention_module_has_one_unit_for_each_row_of_its_stacked_projection():
    maps = groups_of(layout_of(nn.MultiheadAttention(4, 2), "unit"), "unit")
    assert torch.equal(maps["in_proj_weight"][:, 0], maps["in_proj_bias"])
    assert maps["in_proj_bias"].unique().numel() == 12
    assert torch.equal(maps["out_proj.weight"][:, 0], maps["out_proj.bias"])


def test_a_weight_normalised_layer_is_one_layer_with_the_same_units():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)))
    layout = layout_of(model, "layer", "unit")
    assert [f.name for f in layout.partitions[0].families] == ["0"]
    assert layout.partitions[1].count == 2


def test_tied_weights_belong_to_the_first_module_that_owns_them():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.out = nn.Linear(3, 5)
            self.out.weight = self.embed.weight

    opt = camhd.SGD(Tied(), levels=("layer",))
    assert opt.rates()["layer"].keys() == {"embed", "out"}
    assert len(opt.param_groups[0]["params"]) == 2


def test_unnamed_parameters_are_a_layer_each():
    opt = camhd.Adam(nn.Linear(3, 2).parameters())
    assert list(opt.rates()["layer"]) == ["0", "1"]


def test_parameters_of_the_root_module_are_one_layer():
    assert list(camhd.Adam(nn.Linear(3, 2)).rates()["layer"]) == ["(root)"]


def test_the_names_of_a_compiled_model_are_those_of_the_model():
    model = torch.compile(nn.Sequential(nn.Linear(3, 2)), backend="eager")
    assert list(camhd.Adam(model).rates()["layer"]) == ["0"]


def test_levels_may_be_spelled_in_any_order_and_weights_follow_the_spelling():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    opt = camhd.Adam(model, levels=("unit", "global", "layer"), weights=(0.5, 0.3, 0.2))
    assert list(opt.rates()) == ["global", "layer", "unit"]
    assert opt.combination() == pytest.approx({"global": 0.3, "layer": 0.2, "unit": 0.5})
    by_name = camhd.Adam(model, levels=("unit", "global", "layer"), weights={"unit": 0.5, "global": 0.3, "layer": 0.2})
    assert by_name.combination() == pytest.approx(opt.combination())


def test_five_levels_nest():
    layout = layout_of(
        Stacked(nn.LSTM(3, 4)), "unit", "gate", "layer", camhd.levels.Block(lambda n: n[0]), "global", "parameter"
    )
    assert layout.names == ("global", "block", "layer", "gate", "unit", "parameter")


def test_rates_of_a_custom_level_are_shared_as_it_says():
    class ByRank(camhd.levels.Level):
        name = "rank"

        def split(self, slot):
            return camhd.levels.Split(f"{len(slot.shape)}-d")

    opt = camhd.Adam(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), levels=("global", ByRank()))
    assert opt.rates()["rank"].keys() == {"2-d", "1-d"}


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3), (2, 3, 4, 5), (1, 1, 1, 1, 1, 1, 2)])
def test_tensors_of_any_rank_have_cells_at_every_level(shape):
    param = nn.Parameter(torch.ones(shape, dtype=torch.float64))
    for levels in (("global",), ("global", "layer"), ("global", "unit"), ("layer", "unit", "parameter")):
        opt = camhd.Adam([("a.w", param)], levels=levels)
        for _ in range(3):
            opt.zero_grad()
            (param * 2).sum().backward()
            opt.step()
        assert torch.isfinite(param).all()


NEST = [
    ("gate", camhd.levels.Unit(axis="input")),
    ("layer", camhd.levels.Block(lambda name: "weights" if "weight" in name else "biases")),
]


@pytest.mark.parametrize("levels", NEST, ids=["unit-over-gate", "block-through-layer"])
def test_levels_that_do_not_nest_are_refused_with_the_place(levels):
    with pytest.raises(ValueError, match=r"'levels' must nest, but '.*' splits across '.*' in 'rnn\.\w+'"):
        camhd.SGD(Stacked(nn.LSTM(3, 4)), levels=levels)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "at least one level"),
        (("global", "global"), "must not repeat a level, but 'global' is there twice"),
        (("globl",), "'levels' must be made of 'global', .* got 'globl'"),
        (("block",), r"'block', which needs a function.*Block\(lambda"),
        ((3,), "got 3"),
    ],
)
def test_a_wrong_chain_of_levels_is_a_clear_error(levels, message):
    with pytest.raises(ValueError, match=message):
        camhd.SGD(nn.Linear(2, 2), levels=levels)


def test_asking_for_gates_of_unnamed_parameters_says_what_to_pass():
    with pytest.raises(ValueError, match=r"pass the model itself or model\.named_parameters\(\)"):
        camhd.SGD(nn.LSTM(2, 2).parameters(), levels=("global", "gate"))


def test_gates_that_names_cannot_tell_are_refused():
    lonely = [("rnn.weight_ih_l0", nn.Parameter(torch.ones(8, 2)))]
    with pytest.raises(ValueError, match=r"the gates of 'rnn\.weight_ih_l0' cannot be told"):
        camhd.SGD(lonely, levels=("global", "gate"))
