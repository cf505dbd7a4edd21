"""Opens the HTML report in headless Chromium, uses it as a person would, and prints what it shows, as JSON.

Usage: page_reader.py FILE. Fails if the page reports an error or asks for anything but itself.
"""

import json
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WAIT_MS = 120_000
address = Path(sys.argv[1]).resolve().as_uri()
problems, requests = [], []


def text(page, selector):
    return page.inner_text(selector, timeout=WAIT_MS)


def visible_rows(page):
    return page.eval_on_selector_all("#spacer .row .name", "nodes => nodes.map((node) => node.textContent)")


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme="dark")
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address, timeout=WAIT_MS)
    page.wait_for_selector("html[data-ready=true]", timeout=WAIT_MS)
    shown = {
        "title": page.title(),
        "badge": text(page, ".badge"),
        "heading": text(page, "h1"),
        "count": text(page, "#count"),
        "policy": page.get_attribute("meta[http-equiv]", "content"),
        "first_rows": visible_rows(page)[:5],
        "detail": text(page, "#detail"),
        "diff": page.eval_on_selector_all(".diff .add, .diff .del", "nodes => nodes.map((node) => [node.className, node.textContent])"),
        "source": page.eval_on_selector_all(".source .line.at", "nodes => nodes.map((node) => node.textContent)"),
        "notes": page.eval_on_selector_all(".notes li", "nodes => nodes.map((node) => node.textContent)"),
        "history": page.locator("#history i").count(),
        "timeline": page.is_visible("#timeline-card"),
        "usage": page.eval_on_selector_all("#usage canvas", "nodes => nodes.map((node) => [node.getAttribute('aria-label'), node.getContext('2d').getImageData(0, 0, node.width, node.height).data.some((part) => part > 0)])"),
        "slowest": page.eval_on_selector_all("#slowest .where", "nodes => nodes.map((node) => node.textContent)"),
        "scripts": page.locator("script").count(),
    }
    # By keyboard alone: the filter, the list, the search.
    page.focus("[data-filter=all]")
    page.keyboard.press("Enter")
    shown["all"] = text(page, "#count")
    page.focus("#list")
    shown["selected_before"] = text(page, "#detail h2")
    page.keyboard.press("ArrowDown")
    shown["selected_after"] = text(page, "#detail h2")
    active = page.get_attribute("#list", "aria-activedescendant")
    shown["active_is_selected"] = page.get_attribute(f"#{active}", "aria-selected") == "true"
    page.keyboard.press("End")
    shown["last"] = text(page, "#detail h2")
    shown["rows"] = page.locator("#spacer .row").count()
    shown["nodes"] = page.evaluate("document.querySelectorAll('*').length")
    page.keyboard.press("/")
    words = sys.argv[2]
    page.keyboard.type(words)
    page.wait_for_function("words => document.getElementById('search').value === words && document.querySelector('#count').textContent.startsWith('1 of')", arg=words, timeout=WAIT_MS)
    shown["found"] = visible_rows(page)
    dark = background(page)
    page.click("#theme")
    shown["themes_differ"] = dark != background(page)
    # Without scripts the page still names the failures.
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(address, timeout=WAIT_MS)
    shown["plain"] = text(plain, "main")
    browser.close()

if problems or [url for url in requests if url != address]:
    sys.exit(json.dumps({"problems": problems, "requests": requests}))
print(json.dumps(shown))
