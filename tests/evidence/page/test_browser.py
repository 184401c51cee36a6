"""The page in a real browser: no error, no request, and the three-dimensional view turns."""

import base64
import hashlib
import json
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium and chromedriver (Debian: chromium, chromium-driver)"
)
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
    driver.get((world.folder / "report.html").as_uri())
    yield driver
    driver.quit()


def picture(browser) -> str:
    """What the canvas shows, once it has been drawn after the last change."""
    script = """const [done] = arguments, show = () => done(document.querySelector("canvas").toDataURL());
        requestAnimationFrame(() => requestAnimationFrame(show));"""
    return hashlib.sha256(browser.execute_async_script(script).encode()).hexdigest()


def colours(browser) -> int:
    return browser.execute_script(
        """const c = document.querySelector("canvas");
        const seen = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer));
        return seen.size;"""
    )


@pytest.fixture
def canvas(browser):
    found = browser.find_element(By.TAG_NAME, "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    WebDriverWait(browser, 10).until(lambda b: colours(b) > 50)
    return found


def test_it_loads_without_an_error_or_a_request(browser):
    assert browser.title == "What LayerNorm does for attention"
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [s["request"]["url"] for s in sent if s["documentURL"].startswith("file:")]
    assert sum(url.startswith("file:") for url in urls) == 1, "the page itself"
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
    browser.find_element(By.CSS_SELECTOR, "option[value='1']").click()
    seen.add(picture(browser))
    for view in ("edge", "ones"):
        browser.find_element(By.CSS_SELECTOR, f"button[data-view={view}]").click()
        seen.add(picture(browser))
    assert len(seen) == 6


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_it_fits_the_screen(browser, width, tmp_path):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        screenshot = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
        assert len(screenshot) > 20_000
        clipped = "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert width < 1000 or browser.execute_script(clipped) == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_made_no_error_on_the_way(browser):
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
