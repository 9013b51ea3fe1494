"""The page in a real browser: it works, it asks nothing of any network, and it fits a phone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from gape.report import write_report
from gape.runs.synthesize import synthesize
from report.reading import data_of
from report.runs import HOSTILE

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "these tests need Chromium: apt-get install chromium"
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


class Opened:
    """A report on the screen, and everything it should not have done."""

    def __init__(self, browser: Browser, path: Path, *, width: int = 1100, scheme: str = "light") -> None:
        self.faults: list[str] = []
        self.path = path
        self.context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
            has_touch=width < 500,
        )
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda said: self.faults.append(f"console {said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._asked)
        self.page.goto(path.as_uri())

    def _asked(self, request: Request) -> None:
        if request.url != self.path.as_uri():
            self.faults.append(f"request {request.url}")

    def overflow(self) -> int:
        """By how much the page is wider than the screen."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def background(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.fixture(scope="module")
def report(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(texts, tmp_path_factory.mktemp("report") / "report.html")


def test_no_kind_of_page_errs_or_asks_for_anything(
    browser: Browser, texts: Path, labelled: Path, vectors: Path, hostile: Path, unfinished: Path, tmp_path: Path
) -> None:
    pages = [
        write_report(run, tmp_path / f"{i}.html") for i, run in enumerate((labelled, vectors, hostile, unfinished))
    ]
    pages += [write_report(texts, tmp_path / "bare.html", with_map=False)]
    pages += [write_report(texts, tmp_path / "internal.html", internal=True)]
    for path in pages:
        for width in (375, 1100):
            opened = Opened(browser, path, width=width)
            opened.page.wait_for_selector("#samples > li")
            assert opened.overflow() <= 0
            assert opened.faults == []
            opened.context.close()


def test_the_slider_goes_through_the_rounds(browser: Browser, report: Path) -> None:
    opened, data = Opened(browser, report), data_of(report)
    page = opened.page
    points = page.locator("#plane circle.point")
    assert page.text_content("#turn") == "round 3"
    assert points.count() == 12
    page.focus("#round")
    seen = []
    for turn in ("round 2", "round 1", "start"):
        page.keyboard.press("ArrowLeft")
        assert page.text_content("#turn") == turn
        seen.append(page.locator("#plane").inner_html())
    assert len(set(seen)) == 3
    assert page.get_attribute("#round", "aria-valuetext") == "start"
    assert "no votes before" in (page.text_content("#key") or "")
    page.select_option("#colour", "age")
    assert "new" in (page.text_content("#key") or "")
    page.click("#play")
    page.locator("#turn", has_text="round 1").wait_for()
    x, y = data["map"]["rounds"][1][0][0], 10_000 - data["map"]["rounds"][1][1][0]
    first = data["rounds"][1]["drawn"][0]
    moved = points.evaluate_all(f"circles => circles.find(circle => circle.index === {first}).style.transform")
    assert moved == f"translate({x}px, {y}px)"
    assert opened.faults == []


def test_a_point_tells_its_text_by_pointer_touch_and_keyboard(browser: Browser, report: Path) -> None:
    data = data_of(report)
    wanted = {data["texts"][place] for place in data["rounds"][-1]["text"]}
    for width in (1100, 375):
        opened = Opened(browser, report, width=width)
        page = opened.page
        page.locator("#plane circle.point").nth(4).click(force=True)
        shown = page.locator("#shown > .quote").text_content()
        assert shown in wanted
        page.focus("#plane")
        texts, ways = set(), 0
        for _ in range(12):
            page.keyboard.press("ArrowRight")
            texts.add(page.locator("#shown > .quote").text_content())
            untouched = "unchanged since the start" in page.locator("#shown > .meta").inner_text()
            steps = page.locator("#shown .lineage li").count()
            assert (steps == 0) == untouched
            ways += steps
        assert texts == wanted
        assert ways >= 2
        assert opened.faults == []
        opened.context.close()


def test_search_sorting_and_lineage(browser: Browser, report: Path) -> None:
    opened, data = Opened(browser, report), data_of(report)
    page = opened.page
    last = data["rounds"][-1]
    items = page.locator("#samples > li")
    assert page.text_content("#matches") == "12 of 12"
    most = max(last["votes"])
    assert items.first.locator(".meta").first.inner_text().startswith(f"{most} vote")
    page.select_option("#sort", "fewest")
    assert items.first.locator(".meta").first.inner_text().startswith(f"{min(last['votes'])} vote")
    page.select_option("#sort", "text")
    shown = [text.strip() for text in items.locator("button .quote").all_text_contents()]
    assert shown == sorted(shown)
    word = data["texts"][last["text"][0]].split()[1]
    page.fill("#search", word.upper())
    matching = sum(word.lower() in data["texts"][place].lower() for place in last["text"])
    assert page.text_content("#matches") == f"{matching} of 12"
    assert items.count() == matching
    first = items.first.locator("button")
    first.click()
    assert first.get_attribute("aria-expanded") == "true"
    way = items.first.locator(".lineage li")
    assert way.first.locator(".meta").inner_text().startswith("Start")
    assert way.last.locator(".quote").text_content() == first.locator(".quote").text_content()
    first.press("Enter")
    assert items.first.locator(".lineage").count() == 0
    page.fill("#search", "nothing says this")
    assert items.count() == 0
    assert opened.faults == []


def test_lineage_marks_what_was_written_anew(browser: Browser, report: Path) -> None:
    page = Opened(browser, report).page
    before, after = "The hotel was closed on Monday again", "The hotel was friendly on Monday"
    marked = page.evaluate(f"changed('{before}', '{after}').map(part => part.outerHTML || part)")
    assert marked == ["The hotel was ", "<mark>friendly</mark>", " on Monday"]
    assert page.evaluate("changed('one two three', 'none of these at all one')") == ["none of these at all one"]


def test_the_theme_follows_the_system_and_the_button(browser: Browser, report: Path) -> None:
    light, dark = Opened(browser, report), Opened(browser, report, scheme="dark")
    day, night = light.background(), dark.background()
    assert day != night
    assert light.page.text_content("#theme") == "Dark"
    light.page.click("#theme")
    assert light.background() == night
    assert light.page.text_content("#theme") == "Light"
    dark.page.click("#theme")
    assert dark.background() == day
    dark.page.click("#theme")
    assert dark.background() == night
    assert light.faults == dark.faults == []


def test_labels_filter_the_list(browser: Browser, labelled: Path, tmp_path: Path) -> None:
    path = write_report(labelled, tmp_path / "report.html", with_map=False)
    page, data = Opened(browser, path).page, data_of(path)
    own = [data["labels"][place] for place in data["rounds"][-1]["text"]]
    page.select_option("#label", own[0])
    shown = page.locator("#samples > li button .label").all_text_contents()
    assert shown == [own[0]] * sum(each == own[0] for each in own)


def test_a_label_that_is_a_cell_filters_the_list_and_is_shown_once(browser: Browser, tmp_path: Path) -> None:
    schema, public = tmp_path / "schema.toml", tmp_path / "public.jsonl"
    schema.write_text('[stars]\nchoices = ["low", "high"]\n\n[review]\ntext = "reviews"\n')
    rows = [{"stars": ("low", "high")[i % 2], "review": f"The soup number {i} was {i * i}."} for i in range(60)]
    public.write_text("".join(f"{json.dumps(row)}\n" for row in rows[30:]))
    run = tmp_path / "run"
    chosen: dict[str, Any] = {
        "schema": str(schema),
        "label": "stars",
        "generator": f"corpus:{public}",
        "samples": 4,
        "rounds": 1,
    }
    synthesize(rows[:30], epsilon=8.0, folder=run, **chosen)
    page = Opened(browser, write_report(run, with_map=False)).page
    page.select_option("#label", "low")
    shown = page.locator("#samples > li button").all_text_contents()
    assert shown
    assert all("stars: low" in text for text in shown)
    assert "stars: low\nreview: " in page.locator("#samples > li button").first.inner_text()
    assert page.locator("#samples .label").count() == 0


def test_hostile_texts_are_shown_and_do_nothing(browser: Browser, hostile: Path, tmp_path: Path) -> None:
    path = write_report(hostile, tmp_path / "report.html", title="</title><img src=x onerror=window.hacked=7>")
    opened = Opened(browser, path, width=375)
    page = opened.page
    for button in page.locator("#samples > li > button").all():
        button.click()
    shown = set(page.locator("#samples > li > button .quote").all_text_contents())
    assert shown <= set(HOSTILE)
    assert len(shown) > 3
    page.focus("#plane")
    for _ in HOSTILE:
        page.keyboard.press("ArrowRight")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, b").count() == 0
    assert opened.overflow() <= 0
    # Even if markup got in, the policy of the page would not run it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hacked=8>')")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None


def test_on_paper_there_are_no_controls(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, scheme="dark")
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("#theme")
    assert not opened.page.is_visible("#search")
    assert opened.page.is_visible("#plane")
    assert opened.background() == "rgb(255, 255, 255)"
