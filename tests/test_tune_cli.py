"""`camhd tune`: output, errors, the file that `camhd train` takes, the report in a browser, the page of the docs."""

import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from camhd.cli import commands
from camhd.lab import records
from camhd.lab.tune import PAPER

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("--model", "logistic", "--optimizer", "adam-hd", "--epochs", "1", "--batch-size", "256")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)


def call(*arguments):
    return CliRunner().invoke(commands.app, [str(word) for word in arguments], prog_name="camhd")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.titles = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]

    def handle_data(self, text):
        if self.tags and self.tags[-1] == "h3":
            self.titles.append(text.strip())


def test_tune_ends_with_a_table_a_file_that_train_takes_and_a_report(elsewhere):
    done = call("tune", *SMALL, "--trials", 5)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert re.match(r"digits-logistic-adam-hd-\w{6}: 5 trials · ", lines[0])
    assert lines[1] == "Trials, best first"
    assert lines[2].split() == ["trial", "loss", "lr", "hyper_lr", "epochs"]
    assert len([line for line in done.stderr.splitlines() if re.match(r"\[\d/5\] trial \d: ", line)]) == 5
    command = shlex.split(re.search(r"^To train with it: (.*)$", done.stdout, re.MULTILINE)[1])

    trained = call(*command[1:])
    assert trained.exit_code == 0, trained.output
    (run,) = records.load("runs")
    best = json.loads(Path(command[-1]).read_text())
    assert run.config.as_dict() == best
    assert (run.status, run.config.split) == ("finished", "full")
    assert lines[3].split()[2:4] == [f"{run.config.options[name]:.4g}" for name in ("lr", "hyper_lr")]

    text = Path(re.search(r"^Report: (.*)$", done.stdout, re.MULTILINE)[1]).read_text()
    page = Page(text)
    assert page.links == ["data:,"]
    assert "script" not in page.tags
    assert page.tags.count("svg") >= 4
    assert {"Slices", "lr × hyper_lr", "Trials"} <= set(page.titles)
    assert not set(done.output) & set("\x1b━─")


def test_tune_prints_json_and_goes_on(elsewhere):
    first = call("tune", *SMALL, "--trials", 2, "--json")
    assert first.exit_code == 0, first.output
    again = call("tune", *SMALL, "--trials", 3, "--json")
    before, after = json.loads(first.stdout), json.loads(again.stdout)
    assert after["trials"][:2] == before["trials"]
    assert len(after["trials"]) == 3
    assert after["best"]["loss"] == min(one["loss"] for one in after["trials"])
    assert after["config"]["batch_size"] == 256
    assert again.stderr.count("\n") == 1


def test_the_papers_protocol_is_one_command(elsewhere, monkeypatch):
    seen = []

    def stop(task, folder, **more):
        seen.append(task)
        raise KeyboardInterrupt

    monkeypatch.setattr("camhd.lab.tune.tune", stop)
    done = call("tune", "--protocol", "paper")
    assert done.exit_code == 130
    assert "Stopped. To go on:\n  camhd tune --protocol paper" in done.stderr
    (task,) = seen
    assert task.points == 1960
    assert {one.name: one.values for one in task.space} == dict(PAPER)
    assert (task.folds, task.settings.patience, task.settings.epochs) == (5, 3, 200)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--search", "hyper_lr=1,2", "--optimizer", "adam"], "optimizer 'adam' has no such option"),
        (["--protocol", "random"], "--protocol has no choice 'random'"),
        (["--split", "full"], "--split must not be full"),
        (["--split", "fraction:0.1", "--folds", "3"], "--split and --folds contradict each other"),
        (["--epochs", "0"], "--epochs must be a whole number"),
        (["--trials", "0"], "--trials must be 1 or more"),
        (["--workers", "0"], "--workers must be 1 or more"),
        (["--storage", "nothing://here"], "--storage 'nothing://here' cannot be opened"),
    ],
)
def test_a_wrong_argument_is_told_without_a_traceback(elsewhere, arguments, message):
    done = call("tune", "--model", "logistic", *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.output


def test_a_study_in_which_all_fails_says_why(elsewhere):
    Path("mine.py").write_text(
        "import torch\n\ndef never(model, lr=0.1):\n    if lr != 0.1:\n        raise OSError('no disk')\n"
        "    return torch.optim.SGD(model.parameters(), lr=lr)\n"
    )
    done = call("tune", "--model", "logistic", "--optimizer", "mine.py:never", "--search", "lr=0.1..0.2", "--trials", 2)
    assert done.exit_code == 1
    assert "No trial was judged. The last error: OSError: no disk" in done.stderr
    assert done.stderr.count("failed: OSError: no disk") == 2


def test_functions_of_ones_own_are_trained_by_the_command_that_is_printed(elsewhere):
    Path("mine.py").write_text(
        "import torch\n\ndef sgd(model, lr=0.1, momentum=0.0):\n"
        "    return torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)\n"
    )
    done = call("tune", "--model", "logistic", "--optimizer", "mine.py:sgd", "--option", "momentum=0.5", "--epochs", 1,
                "--search", "batch_size=128,256", "--search", "lr=0.1..1.0", "--trials", 1, "--schedule", "cosine",
                "--dtype", "float64", "--search", "loss_scale=2.0", "--seed", 3)  # fmt: skip
    assert done.exit_code == 0, done.output
    command = shlex.split(re.search(r"^To train with it: (.*)$", done.stdout, re.MULTILINE)[1])
    trained = call(*command[1:])
    assert trained.exit_code == 0, trained.output
    (run,) = records.load("runs")
    (file,) = Path("tuning").glob("*/best.json")
    assert run.config.as_dict() == json.loads(file.read_text())


def test_a_config_that_is_none_is_told(elsewhere):
    Path("best.json").write_text('{"format": 1, "model": "logistic", "nonsense": 3}')
    done = call("train", "--config", "best.json")
    assert done.exit_code == 2
    assert "cannot be read: a configuration has no entry 'nonsense'" in " ".join(done.stderr.split())


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path: apt-get install chromium")
@pytest.mark.slow
def test_the_report_is_shown_in_a_browser_without_a_complaint(elsewhere):
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    assert call("tune", *SMALL, "--trials", 6).exit_code == 0
    (path,) = Path("tuning").glob("*/report.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 400, "height": 800})
        wrong = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.resolve().as_uri())
        assert page.locator("svg.drawn circle.top").count() >= 3
        assert page.locator("svg.drawn path[fill-rule]").count() >= 1
        dot = page.locator("svg.drawn circle.dot").first
        assert dot.evaluate("dot => getComputedStyle(dot).fill") == "rgb(0, 114, 178)"  # the shared style is in force
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        browser.close()
    assert wrong == []


# The page of the docs


def blocks(kind):
    text = (ROOT / "docs" / "tuning.md").read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page_run(elsewhere):
    commands_ = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    runnable = [line for line in commands_ if line.startswith("camhd tune") and "postgresql" not in line]
    assert len(runnable) == 3
    for line in runnable:
        done = call(*shlex.split(line)[1:])
        assert done.exit_code == 0, done.output


def test_the_python_example_of_the_page_runs(elsewhere, capsys):
    (block,) = blocks("python")
    exec(compile(block, "tuning.md", "exec"), {})
    assert "digits-logistic-adam-cam-hd-2" in capsys.readouterr().out
