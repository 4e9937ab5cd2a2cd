"""Reports opened in headless Chromium: nothing is loaded, nothing fails, everybody can read them."""

from pathlib import Path

import pytest

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, LinearDiscriminant, NaiveBayes, compare
from credibly.report import About, Settings, report
from helpers import load_by_path, some

pages = load_by_path(Path(__file__).with_name("pages.py"))
pytestmark = pytest.mark.browser

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
NAMES = ["cancer", "wine", "process", "hostile"]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def made(name: str) -> str:
    """The page of one of the models."""
    few = Settings(folds=3)
    if name == "cancer":
        X, y = pages.cancer(200, 6)
        models = {"logit": BayesianLogisticRegression(), "LDA": LinearDiscriminant()}
        about = About(
            target="diagnosis", notes=("A note.",), command="credibly report x.csv", comparison=compare(models, X, y)
        )
        return report(models["logit"].fit(X, y), X, y, about=about, settings=few).html
    if name == "hostile":
        X, y = pages.hostile()
        about = About(title=pages.HOSTILE[0], target=pages.HOSTILE[1], notes=tuple(pages.HOSTILE))
        return report(BayesianLogisticRegression().fit(X, y), X, y, about=about, settings=few).html
    X, y = pages.wine(8) if name == "wine" else pages.cancer(80, 2)
    model = NaiveBayes(features="gaussian") if name == "wine" else GaussianProcessClassifier()
    return report(model.fit(X, y), X, y, settings=few).html


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name in NAMES:
        (folder / f"{name}.html").write_text(made(name), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, files):
    """Open a page; what it loads, logs and breaks is in `page.heard`."""
    contexts = []

    def open_page(name, viewport=DESK, **choices):
        context = browser.new_context(viewport=viewport, **choices)
        contexts.append(context)
        page = context.new_page()
        page.heard = []
        page.on("console", lambda message: page.heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: page.heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("requestfailed", lambda request: page.heard.append(f"stopped: {request.failure} {request.url}"))
        page.on("request", lambda request: page.heard.append(f"request: {request.url}"))
        page.goto((files / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", some(NAMES, "wine"))
def test_it_loads_only_itself_and_says_nothing_on_the_console(opened, name):
    page = opened(name)
    page.wait_for_timeout(200)
    assert page.heard == [f"request: {page.url}"]


@pytest.mark.parametrize("name", NAMES)
def test_all_figures_are_there(opened, name):
    page = opened(name)
    sizes = page.eval_on_selector_all(
        "figure svg", "all => all.map(it => [it.getBoundingClientRect().width, it.getBoundingClientRect().height])"
    )
    expected = {"cancer": 10, "wine": 8, "process": 7, "hostile": 9}[name]
    assert len(sizes) == expected
    assert all(width > 200 and height > 80 for width, height in sizes)
    drawn = page.eval_on_selector_all(
        "figure svg", "all => all.map(it => it.querySelectorAll('path, use, image').length)"
    )
    assert min(drawn) > 5
    assert page.eval_on_selector_all("figure svg text", "all => all.length") > 50  # letters are letters


@pytest.mark.parametrize(
    ("name", "viewport", "scheme"),
    [
        *(pytest.param(name, DESK, "light", marks=pytest.mark.slow) for name in NAMES),
        ("wine", DESK, "dark"),
        pytest.param("cancer", PHONE, "light", marks=pytest.mark.slow),
        pytest.param("process", PHONE, "dark", marks=pytest.mark.slow),
    ],
)
def test_everybody_can_read_it(opened, name, viewport, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(name, viewport, color_scheme=scheme)
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "best-practice"]}})
    assert found.violations_count == 0, found.generate_report()


def test_the_check_of_accessibility_bites(opened):
    from axe_playwright_python.sync_playwright import Axe

    page = opened("process")
    page.evaluate("document.documentElement.removeAttribute('lang')")
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa"]}})
    assert [it["id"] for it in found.response["violations"]] == ["html-has-lang"]


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_does_not_scroll_sideways(opened, name):
    page = opened(name, PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("window.scrollTo(100, 0)")
    assert page.evaluate("window.scrollX") == 0
    # wide tables scroll in a box of their own
    assert page.evaluate("[...document.querySelectorAll('.scroll')].some(it => it.scrollWidth > it.clientWidth)")


def column(page, table, place):
    rows = f"#{table}-caption ~ tbody tr"
    return page.eval_on_selector_all(rows, f"all => all.map(it => Number(it.cells[{place}].dataset.value))")


def names(page, table):
    return page.eval_on_selector_all(f"#{table}-caption ~ tbody tr", "all => all.map(it => it.cells[0].textContent)")


def test_a_click_and_a_key_sort_a_table(opened):
    page = opened("cancer")
    before = names(page, "glance")
    head = page.locator("#glance-caption ~ thead th").nth(2)
    assert head.get_attribute("aria-sort") is None
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    means = column(page, "glance", 2)
    assert means == sorted(means, reverse=True) and len(set(means)) == 6
    page.keyboard.press("Enter")  # the button has the focus
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "glance", 2) == means[::-1]
    first = page.locator("#glance-caption ~ thead th").nth(0)
    first.locator("button").focus()
    page.keyboard.press("Space")
    assert first.get_attribute("aria-sort") == "ascending"
    assert head.get_attribute("aria-sort") is None
    assert names(page, "glance") == sorted(before)


def test_bars_tell_their_values(opened):
    page = opened("cancer")
    bar = page.locator("#glance-caption ~ tbody rect").nth(3)
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    assert page.locator("#tip").is_visible()
    assert page.locator("#tip").inner_text() == bar.get_attribute("data-tip")
    page.locator("h2").first.hover()
    assert not page.locator("#tip").is_visible()


def test_it_can_be_read_without_script(opened):
    page = opened("cancer", java_script_enabled=False)
    assert page.locator("h1").inner_text() == "diagnosis: logistic regression"
    assert page.locator("section").count() == 8
    assert page.locator("th button").count() == 0  # no button that does nothing
    assert page.locator(".findings li").first.is_visible()
    assert "mean radius" in page.locator("#glance-caption ~ tbody").inner_text()
    assert page.locator("figure").last.is_visible()


@pytest.mark.parametrize("name", ["hostile"])
def test_hostile_names_do_nothing(opened, name):
    page = opened(name)
    for button in page.locator("th button").all():
        button.click()
    for item in page.locator(".findings li").all():
        item.click()
    page.wait_for_timeout(200)
    assert page.heard == [f"request: {page.url}"]
    assert page.title() == pages.HOSTILE[0]
    assert page.locator("script").count() == 1 and page.locator("img").count() == 0
    assert page.locator("b[onclick]").count() == 0
    shown = page.locator("#glance-caption ~ tbody th").all_inner_texts()
    assert sorted(shown) == sorted(pages.HOSTILE)


def test_a_script_that_got_in_would_not_run(opened):
    page = opened("process")
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.broken = 1';
        document.body.append(script);
        const image = document.createElement('img');
        image.src = 'https://example.org/x.png';
        document.body.append(image);
    }""")
    page.wait_for_timeout(100)
    assert page.evaluate("window.broken") is None
    assert "stopped: csp https://example.org/x.png" in page.heard  # by the page's own policy, not for want of a network


def test_it_prints(opened, tmp_path):
    page = opened("cancer")
    printed = page.pdf(path=tmp_path / "page.pdf", format="A4", print_background=True)
    assert printed.startswith(b"%PDF") and len(printed) > 50_000
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("figure").last.is_visible()


def test_links_lead_to_their_sections(opened):
    page = opened("wine")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for link in page.locator("nav a").all():
        link.click()
        assert page.evaluate("document.querySelector(location.hash).getBoundingClientRect().top") < 900
