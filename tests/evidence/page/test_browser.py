"""The pages in a real browser: no error, no request, they fit screens and paper, and their controls work."""

import hashlib
import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from tiny_world import HOSTILE

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


@pytest.fixture(scope="module")
def browser(world, tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_window_size(1200, 1000)
    opened(driver, world, "report")
    yield driver
    driver.quit()


def opened(browser, world, page):
    """The browser with a page anew, and all that is folded open."""
    browser.get((world.folder / f"{page}.html").as_uri())
    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    return browser


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


def test_it_loads_without_an_error_or_a_request(browser):
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = {s["request"]["url"] for s in sent if s["documentURL"].startswith("file:")}
    (page,) = {url for url in urls if url.startswith("file:") and not url.endswith(".png")}
    beside = (page.rpartition("/")[0] + "/figures/", "data:")
    assert all(url.startswith(beside) for url in urls - {page}), "pictures beside it"


# The view in three dimensions


def picture(browser) -> str:
    """What the canvas shows, once it has been drawn after the last change."""
    script = """const [done] = arguments, show = () => done(document.querySelector("canvas").toDataURL());
        requestAnimationFrame(() => requestAnimationFrame(show));"""
    return hashlib.sha256(browser.execute_async_script(script).encode()).hexdigest()


def point_of_view(browser) -> list[float]:
    """Azimuth and elevation in degrees, and the zoom."""
    return browser.execute_script("return [state.azimuth, state.elevation, state.zoom]")


@pytest.fixture
def canvas(browser):
    found = browser.find_element(By.TAG_NAME, "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    colours = """const c = document.querySelector("canvas");
        const shown = c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer;
        return new Set(new Uint32Array(shown)).size;"""
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(colours) > 50)
    return found


def test_mouse_finger_and_keyboard_turn_and_zoom_and_reset_the_view(browser, canvas):
    browser.find_element(By.CSS_SELECTOR, "button[data-view=printed]").click()
    first = picture(browser)
    assert picture(browser) == first, "still until it is touched"
    assert (start := point_of_view(browser)) == [-14, 16, 1], "as in Figures 1a and 1b"
    ActionChains(browser).drag_and_drop_by_offset(canvas, 80, 30).perform()
    seen = [first, picture(browser)]
    assert np.subtract(point_of_view(browser), start).tolist() == [-40, 15, 0], "the near side follows"
    box = browser.execute_script("return arguments[0].getBoundingClientRect()", canvas)
    for kind, points in (("touchStart", [40]), ("touchMove", [70]), ("touchMove", [99]), ("touchEnd", [])):
        touch = {"type": kind, "touchPoints": [{"x": box["x"] + dx, "y": box["y"] + 40} for dx in points]}
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
    seen.append(picture(browser))
    browser.execute_script("arguments[0].focus()", canvas)
    start = point_of_view(browser)
    for key in (Keys.ARROW_LEFT, Keys.ARROW_UP, "+"):
        ActionChains(browser).send_keys(key).perform()
        seen.append(picture(browser))
    assert len({*seen}) == len(seen), "every gesture shows something else"
    assert np.subtract(point_of_view(browser), start) == pytest.approx([5, 5, 0.15])
    browser.execute_script("turn(0, 200); zoom(0.01)")
    assert point_of_view(browser)[1:] == [90, 0.6], "neither over the pole nor out of sight"
    ActionChains(browser).send_keys(Keys.HOME).perform()
    assert picture(browser) == first


def test_variants_runs_and_views_can_be_chosen(browser, canvas):
    seen, texts = set(), set()
    for radio in browser.find_elements(By.CSS_SELECTOR, "input[name=variant]"):
        radio.click()
        seen.add(picture(browser))
        texts.add(browser.find_element(By.ID, "description").text)
    assert len(seen) == len(texts) == 3
    choice = Select(browser.find_element(By.CSS_SELECTOR, "#view select"))
    for value, words in (("all", "3 runs:"), ("2", "seed 2:")):
        choice.select_by_value(value)
        assert words in browser.find_element(By.ID, "description").text
    seen.add(picture(browser))
    radio.click()
    browser.find_element(By.CSS_SELECTOR, "input[name=variant]").click()
    assert "LayerNorm, seed 2:" in browser.find_element(By.ID, "description").text, "the run stays chosen"
    seen.add(picture(browser))
    for view, nearness in (("edge", 0.0), ("ones", 1.0)):  # cosine of the line of sight with the ones vector
        browser.find_element(By.CSS_SELECTOR, f"button[data-view={view}]").click()
        seen.add(picture(browser))
        assert browser.execute_script("return dot(camera().near, ONES)") == pytest.approx(nearness, abs=1e-6)
    assert len(seen) == 7
    x, y, z = browser.execute_script("return [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(scene().place)")
    assert x[0] < y[0] and z[1] < x[1], "right-handed, the third axis up"
    keys = "return [chosenItems().filter((item) => item.key).map((item) => item.at), views[0].runs[2].keys]"
    assert not np.diff(browser.execute_script(keys), axis=0).any()
    drawn = browser.execute_script("return [shorten([-3 * limit, limit, 0]), shorten([limit, 0, -limit])]")
    assert [each["hollow"] for each in drawn] == [True, False] and drawn[0]["at"][0] == -drawn[1]["at"][0]
    browser.execute_script("views[1].runs.pop(); chooseVariant(1)")
    assert choice.first_selected_option.text == "all runs", "of a variant that lacks the chosen one"


# The table of claims, the contents and the terms


def rows_shown(browser) -> list[tuple[str, ...]]:
    """Kind and verdict of each claim that the table shows."""
    script = """return [...document.querySelectorAll("tr[data-verdict]")].filter((row) => row.checkVisibility())
        .map((row) => [row.dataset.kind, row.dataset.verdict])"""
    return [tuple(row) for row in browser.execute_script(script)]


def test_the_counts_choose_claims_and_the_address_keeps_the_choice(browser, world):
    everything = rows_shown(browser)
    link = browser.find_elements(By.CSS_SELECTOR, ".tally a")[-1]
    count, _, verdict = link.text.partition(" ")
    link.click()
    shown = rows_shown(browser)
    assert shown == [row for row in everything if row == ("rest", verdict)] and len(shown) == int(count)
    assert browser.find_element(By.CSS_SELECTOR, ".chosen").text.startswith(
        f"{count} of {len(everything)} claims."
    )
    parts = "return [...document.querySelectorAll('tr.part')].filter((row) => row.checkVisibility()).length"
    assert 0 < browser.execute_script(parts) <= 3
    browser.refresh()
    assert rows_shown(browser) == shown, "the address keeps the choice"
    browser.find_element(By.CSS_SELECTOR, ".chosen a").click()
    assert (
        rows_shown(browser) == everything
        and not browser.find_element(By.CSS_SELECTOR, ".chosen").is_displayed()
    )


def test_the_contents_follow_the_reader_of_a_wide_page(browser):
    with screen(browser, 1440):
        browser.execute_script("document.getElementById('scaling').scrollIntoView()")
        current = (By.CSS_SELECTOR, "nav [aria-current]")
        WebDriverWait(browser, 10).until(lambda b: b.find_element(*current).text == "Scaling")
        top = browser.execute_script("return document.querySelector('nav').getBoundingClientRect().top")
        assert 0 <= top < 900


def test_a_term_explains_itself_to_keyboard_and_mouse(browser):
    link = browser.find_element(By.CSS_SELECTOR, "table.claims td a.badge")
    before = browser.find_element(By.CSS_SELECTOR, "table.claims tr.row a")
    browser.execute_script("arguments[0].focus()", before)
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element == link and link.get_attribute("aria-describedby") == "tip"
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed() and tip.text == typeset(MEANINGS[Verdict(link.text)])
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()
    ActionChains(browser).move_to_element(link).perform()
    assert tip.is_displayed()
    link.click()
    assert not tip.is_displayed() and browser.current_url.endswith(link.get_attribute("href"))


HIDDEN = """for (const folded of document.querySelectorAll("details")) folded.open = false;
return [...document.querySelectorAll("details:not(.rest) > :not(summary, .small)")].filter((part) => (
    !part.checkVisibility({contentVisibilityAuto: true}) || !part.getBoundingClientRect().height)).length"""


def test_a_link_into_a_folded_part_unfolds_it(browser):
    """And no other."""
    script = """for (const folded of document.querySelectorAll("details")) folded.open = false;
        location.hash = "#" + document.querySelector("article details").closest("article").id;
        location.hash = "#" + document.querySelector("details.more-figures figure").id;"""
    browser.execute_script(script)
    unfolded = "return [...document.querySelectorAll('details[open]')].map((part) => part.className)"
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(unfolded) == ["more-figures"])


def test_print_shows_what_is_folded_and_no_control(browser):
    with screen(browser, 720, media="print"):
        # What was unfolded by the test before is laid out anew.
        WebDriverWait(browser, 10).until(lambda b: b.execute_script(HIDDEN) == 0)
        for control in ("nav", "#view", ".files", ".rest"):
            assert not browser.find_element(By.CSS_SELECTOR, control).is_displayed()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 720


def test_no_hostile_name_ran_as_code_and_no_control_made_an_error(browser):
    """The page is open since the first test, and all of its controls were used."""
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    ran = "return typeof ran"
    assert browser.execute_script(ran) == "undefined"
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", HOSTILE)
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(ran) == "number")  # it could have


CLIPPED = """return [...document.querySelectorAll("table, .scroll, dl, figure, article, li")].filter((element) => {
    const box = element.getBoundingClientRect(), scrolls = element.closest(".scroll") && innerWidth < 1000;
    return !scrolls && box.right > document.documentElement.clientWidth + 1
        || element.matches(".scroll") && innerWidth >= 1000 && element.scrollWidth > element.clientWidth;
}).map((element) => element.id || element.className || element.tagName)"""

CONTRAST = """
const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number), poor = new Set();
const linear = (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const behind = (element) => {
    const colour = element ? rgb(getComputedStyle(element).backgroundColor) : [255, 255, 255];
    return colour[3] === 0 ? behind(element.parentElement) : colour;
};
for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, noscript, option")) continue;
    const [one, other] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName} ${element.className}`);
}
return [...poor]"""


@pytest.mark.parametrize("page", ["report", "findings"])
def test_pages_fit_every_screen_and_have_contrast_by_day_and_night(browser, world, page):
    opened(browser, world, page)
    for width, scheme in ((390, "light"), (768, "dark"), (1440, "light")):
        with screen(browser, width, features=[{"name": "prefers-color-scheme", "value": scheme}]):
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert browser.execute_script(CLIPPED) == browser.execute_script(CONTRAST) == []
