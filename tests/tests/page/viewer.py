"""Uses the page in headless Chromium as a person would, and prints what it shows, as JSON.

Usage: viewer.py SCENARIO ADDRESS TOKEN. Fails if the page reports an error or asks for anything but its own origin.
With PROCTOR_SCREENSHOTS, a directory, it also takes pictures in light and dark.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from playwright.sync_api import expect, sync_playwright

WAIT_MS = 120_000
scenario, address, token = sys.argv[1:4]
pictures = os.environ.get("PROCTOR_SCREENSHOTS")
problems, requests = [], []


def is_expected(text):
    # The login form is an answer to a visit without a login.
    return "status of 401" in text


def watch(page):
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") and not is_expected(message.text) else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    return page


def log_in(page):
    page.goto(address, timeout=WAIT_MS)
    picture(page, "login")
    page.fill("#token", token)
    page.click("button")
    page.wait_for_selector("html[data-ready=true]", timeout=WAIT_MS)


def picture(page, name):
    if not pictures:
        return
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.screenshot(path=f"{pictures}/{scenario}-{name}-{theme}.png", full_page=True)
    page.emulate_media(color_scheme="light")


def rows(page, table):
    script = "rows => rows.map((row) => [...row.children].filter((cell) => cell.checkVisibility()).map((cell) => cell.textContent))"
    return page.eval_on_selector_all(f"#{table} tr", script)


def shown(page):
    return {
        "title": page.title(),
        "identity": page.inner_text("#identity"),
        "connection": page.inner_text("#connection-text"),
        "text": page.inner_text("body"),
        "may_drain": page.is_visible("#drain"),
        "tenants_shown": page.is_visible("#tenants-card"),
        "tiles": page.eval_on_selector_all(".tile", "tiles => tiles.map((tile) => [tile.children[1].textContent, tile.children[0].textContent])"),
        "meters": page.eval_on_selector_all("#resources .meter", "meters => meters.map((meter) => [meter.children[0].textContent, meter.querySelector('.bar-text').textContent])"),
        "progress": page.eval_on_selector_all("#running [role=progressbar]", "bars => bars.map((bar) => [bar.getAttribute('aria-valuenow'), bar.getAttribute('aria-valuemax'), bar.getAttribute('aria-valuetext')])"),
        **{table: rows(page, table) for table in ("running", "queue", "recent", "tenants", "sessions")},
        "svgs": page.locator("body svg").count(),
        "nodes": page.evaluate("document.querySelectorAll('*').length"),
        "cookie_in_script": page.evaluate("document.cookie"),
    }


def look(browser):
    page = watch(browser.new_page(viewport={"width": 1300, "height": 900}))
    log_in(page)
    page.locator("#running tr, #recent tr").first.wait_for(timeout=WAIT_MS)
    result = shown(page)
    result["cookies"] = [{key: cookie[key] for key in ("httpOnly", "sameSite", "path")} for cookie in page.context.cookies()]
    picture(page, "page")
    page.set_viewport_size({"width": 400, "height": 800})
    picture(page, "narrow")
    # The script of a hostile name could only get here through a hole; the page's own policy stops it there too.
    result["markup"] = page.evaluate("""() => {
        try { document.createElement('p').innerHTML = '<b>x</b>'; return 'made'; } catch (error) { return error.name; }
    }""")
    problems[:] = [problem for problem in problems if "TrustedHTML" not in problem]
    if page.locator("#recent a").count():
        with page.context.expect_page() as opening:
            page.locator("#recent a").first.click()
        report = opening.value
        problems_before = len(problems)
        watch(report)
        report.wait_for_selector("html[data-ready=true]", timeout=WAIT_MS)
        result["report"] = {
            "heading": report.inner_text("h1"),
            "title": report.title(),
            "origin": report.evaluate("self.origin"),
            "opener": report.evaluate("String(window.opener)"),
            "text": report.inner_text("main"),
            "svgs": report.locator("main svg").count(),
            "cookie": report.evaluate("(() => { try { return document.cookie; } catch (error) { return error.name; } })()"),
            "fetch": report.evaluate("fetch('/events').then(() => 'read', (error) => error.name)"),
        }
        picture(report, "report")
        # What the evaluation above asked for is refused by the report's policy, with a message each.
        del problems[problems_before:]
    return result


def search(browser):
    page = watch(browser.new_page(viewport={"width": 1300, "height": 900}))
    log_in(page)
    words = os.environ["PROCTOR_SEARCH"]
    page.locator("#sessions tr").first.wait_for(timeout=WAIT_MS)
    result = {"first": shown(page)}
    picture(page, "page")
    # By keyboard alone.
    page.focus("#next")
    page.keyboard.press("Enter")
    expect(page.locator("#page-number")).to_contain_text("Page 2 ", timeout=WAIT_MS)
    result["second"] = rows(page, "sessions")
    page.focus("#search")
    page.keyboard.type(words)
    expect(page.locator("#sessions tr")).to_have_count(1, timeout=WAIT_MS)
    result["found"] = rows(page, "sessions")
    result["count"] = page.inner_text("#sessions-count")
    page.keyboard.press("Control+a")
    page.keyboard.type("<b>nothing</b>")
    page.wait_for_selector("#sessions-empty:visible", timeout=WAIT_MS)
    result["none"] = page.inner_text("#sessions-empty")
    return result


def drain(browser):
    page = watch(browser.new_page(viewport={"width": 1300, "height": 900}))
    log_in(page)
    page.focus("#drain")
    page.keyboard.press("Enter")
    result = {"focused": page.evaluate("document.activeElement.textContent"), "dialog": page.inner_text("#drain-dialog")}
    picture(page, "dialog")
    page.keyboard.press("Escape")
    result["kept"] = [page.is_visible("#drain-dialog"), page.locator("#notices p").count()]
    page.click("#drain")
    page.click("#drain-dialog .solid")
    page.wait_for_selector("#notices p:visible", timeout=WAIT_MS)
    result["notice"] = page.inner_text("#notices")
    result["button"] = [page.inner_text("#drain"), page.is_disabled("#drain")]
    picture(page, "draining")
    page.wait_for_selector("#connection[data-state=lost]", timeout=WAIT_MS)
    result["after"] = [page.inner_text("#notices"), page.inner_text("#connection-text")]
    problems[:] = [problem for problem in problems if "ERR_" not in problem]
    return result


def refused(browser):
    page = watch(browser.new_page())
    page.goto(address, timeout=WAIT_MS)
    page.fill("#token", token)
    page.click("button")
    expect(page.locator("#connection-text")).to_contain_text("too many viewers", timeout=WAIT_MS)
    problems[:] = [problem for problem in problems if "429" not in problem]
    return {"connection": page.inner_text("#connection-text")}


class Foreign(BaseHTTPRequestHandler):
    """A page of another origin: another port of the same host, so its requests are same-site and have the cookie."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><body></body>")

    def log_message(self, *_):
        pass


ATTACKS = """async (address) => {
    const read = async (path, options) => {
        try { const answer = await fetch(address + path, options); return answer.type === 'opaque' ? 'opaque' : await answer.text(); }
        catch (error) { return error.name; }
    };
    const credentials = 'include';
    const results = {
        page: await read('/', { credentials }),
        events: await read('/events', { credentials }),
        metrics: await read('/metrics', { credentials }),
        opaque_drain: await read('/drain', { credentials, method: 'POST', mode: 'no-cors' }),
    };
    results.source = await new Promise((done) => {
        const source = new EventSource(address + '/events', { withCredentials: true });
        source.onmessage = () => done('message');
        source.onerror = () => done('error');
    });
    results.script = await new Promise((done) => {
        const script = document.createElement('script');
        script.src = address + '/assets/page.js';
        script.onload = () => done('loaded');
        script.onerror = () => done('error');
        document.body.append(script);
    });
    results.frame = await new Promise((done) => {
        const frame = document.createElement('iframe');
        frame.src = address + '/';
        frame.onload = () => { try { done(frame.contentDocument === null ? 'closed' : 'open'); } catch { done('closed'); } };
        document.body.append(frame);
    });
    return results;
}"""


def foreign(browser):
    server = HTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context()
    page = context.new_page()
    log_in(page)
    other = context.new_page()
    other.goto(f"http://127.0.0.1:{server.server_port}/", timeout=WAIT_MS)
    result = other.evaluate(ATTACKS, address)
    # A form, which no rule of the browser keeps from being sent.
    other.evaluate("""(address) => {
        const form = document.createElement('form');
        form.method = 'post';
        form.action = address + '/drain';
        document.body.append(form);
        form.submit();
    }""", address)
    other.wait_for_url(f"{address}/drain", timeout=WAIT_MS)
    result["form"] = other.inner_text("body")
    page.reload(timeout=WAIT_MS)
    page.wait_for_selector("html[data-ready=true]", timeout=WAIT_MS)
    result["drain_button"] = page.inner_text("#drain")
    server.shutdown()
    return result


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    result = {"look": look, "search": search, "drain": drain, "refused": refused, "foreign": foreign}[scenario](browser)
    browser.close()

if problems or [url for url in requests if not url.startswith(f"{address}/")]:
    sys.exit(json.dumps({"problems": problems, "requests": requests}))
print(json.dumps(result))
