"""The report in a real browser: it draws, it answers, it asks for nothing, it can be read on a phone and at night."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from camhd.lab import report
from records_made import METHODS, RESNET, compared, made_run
from reports_read import NASTY, embedded

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path: apt-get install chromium")

LEVELS = {"global": 1, "layer": 0, "parameter": 11_173_962}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        # A container's root has no sandbox; the page is our own.
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two tasks, with every kind of panel; and runs that failed."""
    folder = tmp_path_factory.mktemp("runs")
    compared(folder / "ffnn")
    methods = [METHODS[0], ("Adam-CAM-HD, parameters", "adam-cam-hd-p", {"lr": 1e-3}, LEVELS, 0.2)]
    compared(
        folder / "resnet", methods=methods, seeds=2, layers=RESNET, model="resnet18", data="cifar10", layer_weights=True
    )
    made_run(folder / "failed", seed=8, status="diverged")
    made_run(folder / "failed", seed=9, status=None)
    return report.write(folder, folder / "report.html")


@pytest.fixture
def opened(browser, written) -> Iterator:
    yield from pages(browser, written)


def pages(browser, path: Path, width: int = 1280, **options) -> Iterator:
    """A page that must end without an error, and without having asked for anything but itself."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    wrong, asked = [], []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("path.curve", state="attached")
    yield page
    context.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def unfold(page) -> None:
    """Scroll through, so that every task is drawn."""
    for section in page.locator("section.task").all():
        section.scroll_into_view_if_needed()
        section.locator(".rates canvas").first.wait_for(state="attached")
    page.evaluate("scrollTo(0, 0)")


def until(page, true: Callable[[], bool]) -> None:
    """Wait for something; Playwright's own way evaluates text inside the page, which the page's policy forbids."""
    for _ in range(200):
        if true():
            return
        page.wait_for_timeout(25)
    raise AssertionError("it did not happen within five seconds")


def cut(page) -> list:
    """Texts of plots that do not stand inside their card."""
    return page.evaluate("""() => [...document.querySelectorAll('.stage text')]
        .map((node) => [node.textContent, node.getBoundingClientRect(), node.closest('.card').getBoundingClientRect()])
        .filter(([, box, card]) => box.width && (box.left < card.left || box.right > card.right))""")


def figure(page, title: str):
    return page.locator("#task-0 figure.plot", has=page.get_by_role("heading", name=title, exact=True))


# It draws


def test_every_method_has_its_curve_in_every_plot(opened):
    for title in ("Test accuracy", "Test loss", "Training loss"):
        paths = figure(opened, title).locator("path.curve")
        assert paths.count() == len(METHODS)
        for i in range(len(METHODS)):
            assert len(re.findall(r"[ML]", paths.nth(i).get_attribute("d"))) == 12  # a point per epoch
        assert figure(opened, title).locator("path.band").count() == len(METHODS)


def test_heat_maps_and_histograms_are_painted(opened):
    unfold(opened)
    count = """(canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }"""
    for level in ("layer", "parameter"):
        canvas = opened.locator(f"#task-1 section[aria-label='Level {level}'] .stage canvas")
        assert canvas.evaluate(count) > 50
    names = opened.locator("#task-1 section[aria-label='Level layer'] svg text title").all_text_contents()
    assert names == list(RESNET)
    opened.locator("#task-1").get_by_role("button", name="quantiles").click()
    fans = opened.locator("#task-1 section[aria-label='Level parameter'] path.fan")
    until(opened, lambda: fans.count() == 3)  # a new plot is drawn as soon as the browser knows its width
    assert opened.locator("#task-1 section[aria-label='Weights'] .stage canvas").evaluate(count) > 50


def test_the_rates_of_a_single_run_and_of_another_method_can_be_chosen(opened):
    line = opened.locator("#task-0 section[aria-label='Level global'] path.curve")
    seen = {line.get_attribute("d")}
    opened.locator("#task-0").get_by_label("Runs", exact=True).select_option(label="seed 1")
    seen.add(line.get_attribute("d"))
    opened.locator("#task-0").get_by_label("Method", exact=True).select_option(label="Adam-HD")
    seen.add(line.get_attribute("d"))
    assert len(seen) == 3
    opened.locator("#task-0").get_by_role("button", name="Compare with another method").click()
    assert opened.locator("#task-0 .rates").count() == 2
    opened.locator("#task-0").get_by_role("button", name="Close").click()
    assert opened.locator("#task-0 .rates").count() == 1


def test_runs_that_failed_are_listed_and_configurations_unfold(opened):
    rows = opened.locator("#problems tbody tr").all_text_contents()
    assert ["diverged" in row for row in rows] == [True, False]
    assert "unfinished12 of 12 epochs; not in the tables" in rows[1]
    opened.locator("#task-0 summary").nth(2).click()
    opened.wait_for_selector("#task-0 dl.config")
    terms = opened.locator("#task-0 dl.config dt.differs").all_text_contents()
    assert {"optimizer", "options.hyper_lr", "options.combine_lr"} <= set(terms)
    assert "model" not in terms
    assert opened.locator("#task-0 table.runs tbody tr").count() == 3


# It answers


def test_a_curve_is_switched_off_and_on(opened):
    button = opened.locator("#task-0 .legend").first.get_by_role("button", name="Adam-HD")
    paths = figure(opened, "Test loss").locator("path.curve")
    titles = paths.locator("title").all_text_contents()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert paths.locator("title").all_text_contents() == [title for title in titles if title != "Adam-HD"]
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert paths.locator("title").all_text_contents() == titles
    opened.get_by_role("button", name="none", exact=True).first.click()
    assert paths.count() == 0


def test_pointing_at_a_curve_reads_its_values(opened, written):
    plot = figure(opened, "Test loss")
    plot.scroll_into_view_if_needed()
    box = plot.locator("svg").first.bounding_box()
    opened.mouse.move(box["x"] + box["width"] - 14, box["y"] + 60)
    tip = plot.locator(".tip")
    tip.wait_for(state="visible")
    text = tip.inner_text()
    assert text.startswith("Epoch 12")
    for method in embedded(written)["tasks"][0]["methods"]:
        value = method["curves"]["valid_loss"]["mean"][-1]
        assert method["name"] in text
        assert f"{float(f'{value:.4g}')}" in text
    opened.mouse.move(5, 5)
    tip.wait_for(state="hidden")


def test_pointing_at_a_heat_map_reads_the_recorded_rates(opened, written):
    opened.locator("#task-0").get_by_label("Runs", exact=True).select_option(label="seed 0")
    svg = opened.locator("#task-0 section[aria-label='Level layer'] svg[tabindex]")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    opened.mouse.move(box["x"] + box["width"] - 14, box["y"] + 12)
    tip = opened.locator("#task-0 section[aria-label='Level layer'] .tip")
    tip.wait_for(state="visible")
    history = next((written.parent / "ffnn").glob("*adam-cam-hd-2*-0")) / "history.jsonl"
    last = [json.loads(line) for line in history.read_text().splitlines() if '"kind": "rates"' in line][-1]

    assert tip.inner_text().startswith(f"Step {last['step']}")
    read = [float(text.replace("−", "-")) for text in re.findall(r"layer\d\s+(\S+)", tip.inner_text())]
    assert read == pytest.approx(last["rates"]["layer"]["values"], rel=6e-3)


def test_dragging_zooms_into_all_curves_and_the_button_undoes_it(opened):
    plot = figure(opened, "Test accuracy")
    plot.scroll_into_view_if_needed()
    other = figure(opened, "Test loss").locator("path.curve").first
    before = other.get_attribute("d")
    box = plot.locator("svg").first.bounding_box()
    opened.mouse.move(box["x"] + 120, box["y"] + 100)
    opened.mouse.down()
    opened.mouse.move(box["x"] + 220, box["y"] + 104, steps=4)
    opened.mouse.up()
    assert other.get_attribute("d") != before
    opened.locator("#task-0").get_by_role("button", name="Reset zoom").click()
    assert other.get_attribute("d") == before
    assert not opened.locator("#task-0").get_by_role("button", name="Reset zoom").is_visible()


def test_the_wheel_zooms_only_after_a_click_into_the_plot(opened):
    plot = figure(opened, "Test accuracy")
    plot.scroll_into_view_if_needed()
    curve = plot.locator("path.curve").first
    before = curve.get_attribute("d")
    box = plot.locator("svg").first.bounding_box()
    opened.mouse.move(box["x"] + 150, box["y"] + 100)
    opened.mouse.wheel(0, 40)
    until(opened, lambda: opened.evaluate("scrollY") > 0)
    assert curve.get_attribute("d") == before
    plot.scroll_into_view_if_needed()
    box = plot.locator("svg").first.bounding_box()
    opened.mouse.click(box["x"] + 150, box["y"] + 100)
    opened.mouse.wheel(0, -200)
    until(opened, lambda: curve.get_attribute("d") != before)


def test_scales_and_axes_can_be_switched(opened):
    plot = figure(opened, "Test accuracy")
    curve = plot.locator("path.curve").first
    by_epoch = curve.get_attribute("d")
    plot.get_by_role("button", name="log").click()
    logarithmic = curve.get_attribute("d")
    assert logarithmic != by_epoch
    plot.get_by_role("button", name="linear").click()
    assert curve.get_attribute("d") == by_epoch
    opened.locator("#task-0").get_by_role("button", name="by time").click()
    assert curve.get_attribute("d") != by_epoch
    assert "time" in plot.locator("svg text").all_text_contents()


def test_the_keyboard_reads_and_zooms(opened):
    plot = figure(opened, "Test loss")
    svg = plot.locator("svg").first
    svg.focus()
    svg.press("End")
    svg.press("ArrowLeft")
    assert plot.locator("[aria-live]").text_content().startswith("Epoch 11: Adam")
    before = plot.locator("path.curve").first.get_attribute("d")
    svg.press("+")
    assert plot.locator("path.curve").first.get_attribute("d") != before
    svg.press("Escape")
    assert plot.locator("path.curve").first.get_attribute("d") == before


def test_the_table_is_sorted_by_a_click_on_its_heading(opened):
    rows = opened.locator("#task-0 table.summary tbody tr")

    def accuracy() -> list[float]:
        return [float(row.locator("td").nth(1).get_attribute("data-value")) for row in rows.all()]

    given = accuracy()
    heading = opened.locator("#task-0 table.summary thead th", has_text="Test accuracy")
    heading.get_by_role("button").click()
    assert accuracy() == sorted(given, reverse=True) != given
    assert heading.get_attribute("aria-sort") == "descending"
    heading.get_by_role("button").click()
    assert accuracy() == sorted(given)


# It can be read


@pytest.mark.parametrize("width", [400, 320])
def test_a_phone_shows_everything_without_scrolling_sideways(browser, written, width):
    for page in pages(browser, written, width, has_touch=True, is_mobile=True):
        unfold(page)
        for item in page.locator("#task-0 summary").all():
            item.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        small = page.evaluate("""() => [...document.querySelectorAll('body *')]
            .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
            .filter((node) => node.getClientRects().length && !node.matches('script, style, title'))
            .filter((node) => parseFloat(getComputedStyle(node).fontSize) < 12)
            .map((node) => node.outerHTML.slice(0, 80))""")
        assert small == []
        assert cut(page) == []


def test_a_finger_reads_values_too(browser, written):
    for page in pages(browser, written, 400, has_touch=True, is_mobile=True):
        plot = figure(page, "Test loss")
        plot.scroll_into_view_if_needed()
        box = plot.locator("svg").first.bounding_box()
        page.touchscreen.tap(box["x"] + 200, box["y"] + 100)
        plot.locator(".tip").wait_for(state="visible")
        assert plot.locator(".tip").inner_text().startswith("Epoch ")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


LUMINANCE = """(colour) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}"""


def luminance(page, name: str) -> float:
    """Of a colour of the style sheet, as the page shows it now."""
    shown = """(name) => {
        const probe = document.body.appendChild(document.createElement('i'));
        probe.style.color = `var(${name})`;
        const colour = getComputedStyle(probe).color;
        probe.remove();
        return colour;
    }"""
    return page.evaluate(LUMINANCE, page.evaluate(shown, name))


def contrast(page, one: str, other: str) -> float:
    dark, light = sorted((luminance(page, one), luminance(page, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_by_day_and_by_night(browser, written, scheme):
    for page in pages(browser, written, color_scheme=scheme):
        assert (luminance(page, "--page") > 0.5) == (scheme == "light")
        for text in ("--text", "--muted", "--accent", "--good", "--bad"):
            for ground in ("--page", "--card"):
                assert contrast(page, text, ground) >= 4.5, (text, ground)
        for number in range(8):
            assert contrast(page, f"--s{number}", "--card") >= 3, number


def test_the_theme_can_be_switched(opened):
    assert luminance(opened, "--page") > 0.5
    button = opened.locator("#theme")
    button.click()
    assert button.text_content() == "Theme: light"
    button.click()
    assert button.text_content() == "Theme: dark"
    assert luminance(opened, "--page") < 0.05


def test_lines_are_told_apart_without_colour(browser, tmp_path):
    methods = [(f"Method {i}", f"m{i}", {"lr": 1e-3}, {"lr": 1}, i / 20) for i in range(8)]
    path = report.write(compared(tmp_path, methods=methods, seeds=1), tmp_path / "report.html")
    for page in pages(browser, path):
        curves = figure(page, "Test loss").locator("path.curve")
        dashes = [curves.nth(i).get_attribute("stroke-dasharray") for i in range(8)]
        assert len(set(dashes)) == 8


def test_every_control_has_a_name(opened):
    unfold(opened)
    unnamed = opened.evaluate("""() => [...document.querySelectorAll('button, select, input, svg[tabindex]')]
        .filter((node) => !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length))
        .map((node) => node.outerHTML.slice(0, 90))""")
    assert unnamed == []
    levels = opened.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((node) => Number(node.tagName[1]))")
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))  # no level is jumped over


@pytest.mark.parametrize(
    "made",
    [
        {"epochs": 1, "steps_per_epoch": 1, "rates_every": 2},
        {"epochs": 1, "levels": {"global": 1, "layer": 3, "parameter": 500}, "rates_every": 100},
        {"epochs": 2, "status": "diverged"},
        {"epochs": 3, "status": None},
    ],
    ids=["one step", "one snapshot of the rates", "diverged", "unfinished"],
)
def test_a_single_small_run_is_drawn_without_an_error(browser, tmp_path, made):
    made_run(tmp_path, **made)
    for page in pages(browser, report.write(tmp_path, tmp_path / "report.html")):
        assert page.locator("#task-0 .plots .plot").count() >= 3
        shown = page.evaluate("[...document.querySelectorAll('svg *')].map((node) => node.outerHTML).join('')")
        assert cut(page) == []
        assert "NaN" not in shown
        assert "Infinity" not in shown


def test_printing_draws_every_task(browser, written):
    for page in pages(browser, written):
        assert len(page.pdf()) > 50_000
        assert page.locator("section.task:has(path.curve)").count() == 2


# It is safe


def test_text_from_records_is_shown_and_never_run(browser, tmp_path):
    made_run(tmp_path / "runs", label=NASTY, levels={"global": 1, "layer": 3}, optimizer="o", note=NASTY)
    run = made_run(tmp_path / "runs", label="Adam", seed=1, status=None)
    run.rename(run.parent / NASTY.replace("/", "∕"))
    path = report.write(tmp_path / "runs", tmp_path / "report.html", title=NASTY, remarks=[NASTY])
    for page in pages(browser, path):
        for item in page.locator("summary").all():
            item.click()
        plot = figure(page, "Test loss").locator("svg").first
        plot.focus()
        plot.press("ArrowRight")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
        assert page.locator("h1").text_content() == NASTY
        assert NASTY in page.locator("#task-0 table.summary tbody th").first.text_content()


def test_a_script_that_got_in_all_the_same_would_not_run(browser, written, tmp_path):
    path = tmp_path / "tampered.html"
    path.write_text(written.read_text().replace("</footer>", "</footer><script>window.hacked = 1</script>"))
    context = browser.new_context()
    page = context.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in text for text in refused)
    context.close()
