"""The page in a real browser: no error, no request, it fits every screen and paper, and its controls work."""

import base64
import hashlib
import json
import shutil
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from tiny_world import HOSTILE

from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.tables.typography import typeset

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):  # one line at the end, not one for each test
    pytest.skip("no chromium and chromedriver (Debian: chromium, chromium-driver)", allow_module_level=True)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


UNFOLD = "for (const folded of document.querySelectorAll('details')) folded.open = true"


@pytest.fixture(scope="module")
def browser(world, tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_window_size(1200, 1000)
    driver.get((world.folder / "report.html").as_uri())
    driver.execute_script(UNFOLD)
    yield driver
    driver.quit()


def picture(browser) -> str:
    """What the canvas shows, once it has been drawn after the last change."""
    script = """const [done] = arguments, show = () => done(document.querySelector("canvas").toDataURL());
        requestAnimationFrame(() => requestAnimationFrame(show));"""
    return hashlib.sha256(browser.execute_async_script(script).encode()).hexdigest()


@pytest.fixture
def canvas(browser):
    found = browser.find_element(By.TAG_NAME, "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    colours = """const c = document.querySelector("canvas");
        const shown = c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer;
        return new Set(new Uint32Array(shown)).size;"""
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(colours) > 50)
    return found


def test_it_loads_without_an_error_or_a_request(browser):
    assert browser.title == "What LayerNorm does for attention"
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [s["request"]["url"] for s in sent if s["documentURL"].startswith("file:")]
    (page,) = {url for url in urls if url.startswith("file:") and not url.endswith(".png")}
    figures = page.rpartition("/")[0] + "/figures/"
    assert all(url.startswith((figures, "data:")) for url in urls if url != page), "pictures beside it"
    assert {url.split(":")[0] for url in urls} <= {"file", "data"}


def test_dragging_turns_the_view(browser, canvas):
    before = picture(browser)
    assert picture(browser) == before, "still until it is touched"
    ActionChains(browser).drag_and_drop_by_offset(canvas, 80, 30).perform()
    assert picture(browser) != before


def test_the_keyboard_turns_zooms_and_resets_it(browser, canvas):
    browser.find_element(By.CSS_SELECTOR, "button[data-view=printed]").click()
    first = picture(browser)
    browser.execute_script("arguments[0].focus()", canvas)
    seen = {first}
    for key in (Keys.ARROW_LEFT, Keys.ARROW_UP, "+"):
        ActionChains(browser).send_keys(key).perform()
        seen.add(picture(browser))
    assert len(seen) == 4, "every key shows something else"
    ActionChains(browser).send_keys(Keys.HOME).perform()
    assert picture(browser) == first


def test_a_finger_turns_it(browser, canvas):
    before = picture(browser)
    box = canvas.rect
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", canvas)
    x, y = box["x"] + box["width"] / 2, top + box["height"] / 2
    for kind, dx in (("touchStart", 0), ("touchMove", 30), ("touchMove", 60), ("touchEnd", 60)):
        points = [] if kind == "touchEnd" else [{"x": x + dx, "y": y}]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert picture(browser) != before


def test_variants_runs_and_views_can_be_chosen(browser, canvas):
    seen, texts = set(), set()
    for radio in browser.find_elements(By.CSS_SELECTOR, "input[name=variant]"):
        radio.click()
        seen.add(picture(browser))
        texts.add(browser.find_element(By.ID, "description").text)
    assert len(seen) == len(texts) == 3
    browser.find_element(By.CSS_SELECTOR, "#view option[value='1']").click()
    seen.add(picture(browser))
    for view in ("edge", "ones"):
        browser.find_element(By.CSS_SELECTOR, f"button[data-view={view}]").click()
        seen.add(picture(browser))
    assert len(seen) == 6
    choice = Select(browser.find_element(By.CSS_SELECTOR, "#view select"))
    for value, words in (("2", "seed 2:"), ("all", "3 runs:")):
        choice.select_by_value(value)
        assert words in browser.find_element(By.ID, "description").text


@contextmanager
def screen(browser, width: int, **media):
    """A screen of another width, or another medium."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_wide_figure_says_on_a_phone_that_it_goes_on(browser):
    hint = browser.find_element(By.CSS_SELECTOR, "figure.wide .sideways")
    assert not hint.is_displayed()
    with screen(browser, 390):
        assert hint.is_displayed()
        box = "const box = document.querySelector('figure.wide .picture'); return box.scrollWidth > box.clientWidth"
        assert browser.execute_script(box)


def test_the_contents_stay_in_view_beside_a_wide_page(browser):
    with screen(browser, 1440):
        browser.execute_script("document.getElementById('scaling').scrollIntoView()")
        WebDriverWait(browser, 10).until(
            lambda b: b.find_element(By.CSS_SELECTOR, "nav [aria-current]").text == "Scaling"
        )
        top = "return document.querySelector('nav').getBoundingClientRect().top"
        assert 0 <= browser.execute_script(top) < 900
        assert browser.find_element(By.CSS_SELECTOR, "nav a[href='#random_keys']").is_displayed()


FOLDED = """for (const folded of document.querySelectorAll("details")) folded.open = false;
return [...document.querySelectorAll("details > :not(summary)")].filter((part) =>
    !part.checkVisibility({contentVisibilityAuto: true}) || part.getBoundingClientRect().height === 0
).map((part) => part.outerHTML.slice(0, 80))"""


def test_print_shows_what_is_folded_and_no_control(browser):
    with screen(browser, 720, media="print"):
        hidden = [part for part in browser.execute_script(FOLDED) if 'class="small"' not in part]
        assert hidden == []
        for control in ("nav", "form.choose", "#view", ".files"):
            assert not browser.find_element(By.CSS_SELECTOR, control).is_displayed()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 720
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") > 5


def rows_shown(browser) -> list[tuple[str, str]]:
    script = """return [...document.querySelectorAll("tr.row")].filter((row) => row.checkVisibility())
        .map((row) => [row.dataset.verdict, row.dataset.source])"""
    return [tuple(row) for row in browser.execute_script(script)]


def test_the_table_of_claims_is_filtered_and_sorted(browser):
    form = browser.find_element(By.CSS_SELECTOR, "form.choose")
    verdict, source, sort = (
        Select(form.find_element(By.NAME, name)) for name in ("verdict", "source", "sort")
    )
    everything = rows_shown(browser)
    assert len(everything) == len(CLAIMS)
    verdict.select_by_value("partial")
    partial = rows_shown(browser)
    assert partial == [row for row in everything if row[0] == "partial"] != []
    assert form.find_element(By.TAG_NAME, "output").text == f"{len(partial)} of {len(everything)} claims"
    one = partial[-1][1]
    source.select_by_value(one)
    assert rows_shown(browser) == [row for row in partial if row[1] == one] != partial
    verdict.select_by_value("")
    source.select_by_value("")
    sort.select_by_value("verdict")
    words = list(map(str, MEANINGS))
    assert rows_shown(browser) == sorted(everything, key=lambda row: words.index(row[0])) != everything
    sort.select_by_value("")
    assert rows_shown(browser) == everything


def test_a_term_explains_itself_to_the_keyboard(browser):
    link = browser.find_element(By.CSS_SELECTOR, "table.verdicts a.badge")
    before = browser.find_element(By.CSS_SELECTOR, "tr.row a")
    browser.execute_script("arguments[0].focus()", before)
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element == link and link.get_attribute("aria-describedby") == "tip"
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed() and tip.text == typeset(MEANINGS[Verdict(link.text)])
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()


def test_it_made_no_error_on_the_way(browser):
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_no_hostile_name_ran_as_code(browser):
    """The page is open since the first test, and all of its controls were used."""
    assert browser.execute_script("return typeof ran") == "undefined"
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", HOSTILE)
    ran = "return typeof ran"
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(ran) == "number")  # it could have
    browser.refresh()
    browser.get_log("browser")  # the image that was not found


@pytest.fixture(scope="module", params=["report", "findings"])
def opened(request, browser, world):
    """The browser with a page anew, and all that is folded open."""
    pages = {name: world.folder / f"{name}.html" for name in ("report", "findings")}
    browser.get(pages[request.param].as_uri())
    browser.execute_script(UNFOLD)
    return browser


CLIPPED = """return [...document.querySelectorAll("table, .scroll, dl, figure, article, li")].filter((element) => {
    const box = element.getBoundingClientRect(), scrolls = element.closest(".scroll") && innerWidth < 1000;
    return !scrolls && box.right > document.documentElement.clientWidth + 1
        || element.matches(".scroll") && innerWidth >= 1000 && element.scrollWidth > element.clientWidth;
}).map((element) => element.id || element.className || element.tagName)"""


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_it_fits_the_screen(opened, width):
    with screen(opened, width):
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        assert opened.execute_script(CLIPPED) == []


REACHED = """return [...document.querySelectorAll("a, button, select, input, summary, canvas")].filter((element) => {
    if (!element.checkVisibility() || element.closest("details:not([open])") || element.disabled) return false;
    element.focus();
    return document.activeElement !== element;
}).map((element) => element.outerHTML.slice(0, 80))"""


CONTRAST = """
const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
const pen = canvas.getContext("2d", {willReadFrequently: true});
const rgb = (colour) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => {
    const [r, g, b] = colour.map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
    for (; element; element = element.parentElement) {
        const colour = rgb(getComputedStyle(element).backgroundColor);
        if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
};
const poor = new Set();
for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, noscript, option")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName} ${element.className} ${ratio.toFixed(2)}`);
}
return [...poor]"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_every_control_can_be_reached_by_the_keyboard(opened, scheme):
    with screen(opened, 1440, features=[{"name": "prefers-color-scheme", "value": scheme}]):
        assert opened.execute_script(CONTRAST) == []
    assert opened.execute_script(REACHED) == []
    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []
