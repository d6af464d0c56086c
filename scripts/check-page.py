#!/usr/bin/env python3
"""Uses the page of `cascade serve` in headless Chromium, as people do: with the keyboard, in light and dark.

    pip install playwright
    scripts/check-page.py target/release/cascade [FOLDER FOR SCREENSHOTS]

CHROMIUM names the browser; without it playwright's own is taken (`playwright install chromium`). Fails if the console is not
clean, something loads from elsewhere, or something that can be used has no accessible name.
"""

import os
import pathlib
import subprocess
import sys
import time

from playwright.sync_api import sync_playwright

NAMELESS = """() => [...document.querySelectorAll('button, input, textarea, select, a, [role], [tabindex]')]
    .filter(e => e.offsetParent !== null || e === document.activeElement)
    .filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length
                   || e.textContent.trim() || e.getAttribute('role') === 'status'))
    .map(e => e.outerHTML)"""
# Contrast of all text with what is behind it, by the formula of WCAG 2.
CONTRAST = """() => {
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  return [...document.querySelectorAll('body *')].filter(e => e.offsetParent !== null && !e.disabled
      && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .map(e => { const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
      return [(a + .05) / (b + .05), e.outerHTML.slice(0, 100)]; })
    .filter(([ratio]) => ratio < 4.5);
}"""


HOSTILE = """**b** <img src=x onerror="document.title='owned'"> [x](javascript:alert(1)) `<i>`

```html
<script>document.title = 'owned'</script>
```"""
IN_VIEW = """() => { const last = [...document.querySelectorAll('#conversation .text')].at(-1).getBoundingClientRect();
    return last.top < innerHeight && last.bottom > 0 && last.bottom <= innerHeight; }"""


def answered(page):
    wait(page, "/^(Answered|Stopped|Error)/.test(document.getElementById('status').textContent)")
    assert page.inner_text("#status").startswith("Answered"), page.inner_text("#status")


def check(browser, address, scheme, size, folder):
    context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    wait(page, "document.querySelectorAll('#levels tr').length > 0")
    # By keyboard alone: the question has a way to it, Enter asks, Tab reaches everything.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#question")
    page.keyboard.press("Enter")
    answered(page)
    assert page.inner_text("#conversation").rstrip().endswith("#### 65"), page.inner_text("#conversation")
    expect("the answer is in view", page.evaluate(IN_VIEW), True)
    steps = int(page.get_attribute("#step", "max")) + 1
    assert steps > 1 and page.locator("#conversation span").count() > 1
    page.focus("#step")
    page.keyboard.press("Home")
    assert page.inner_text("#step-text").startswith(f"Step 1 of {steps}")
    assert page.locator("#draft li").count() > 0
    reached = set()
    page.focus("#history")
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"speculation", "ask", "compare", "reset", "conversation", "step"} <= reached, reached
    page.screenshot(path=folder / f"page-{scheme}-{size[0]}.png")
    drafted = float(page.inner_text("#per-forward"))
    assert page.inner_text("#ratio") == "not compared"
    page.click("#compare")
    wait(page, "/^(Compared|Error)/.test(document.getElementById('status').textContent)")
    assert "the same text both ways" in page.inner_text("#status"), page.inner_text("#status")
    page.uncheck("#speculation")
    page.click("text=Again")
    answered(page)
    assert drafted > 1 and page.inner_text("#per-forward") == "1.00"
    page.check("#speculation")
    # All of the offered questions are answered; a setting that the server takes, and one that it refuses.
    page.click("#settings summary")
    page.fill("#k", "2, 2, 6")
    examples = page.locator(".example").count()
    assert examples == 6
    for index in range(examples):
        page.click("#reset")
        page.locator(".example").nth(index).click()
        answered(page)
    page.fill("#k", "1, 2, 3, 4, 5, 6, 7")
    page.fill("#question", "Too many?")
    page.keyboard.press("Enter")
    wait(page, "document.getElementById('status').textContent.startsWith('Error')")
    assert page.input_value("#question") == "Too many?"
    said[:] = [text for text in said if "400" not in text]
    page.fill("#k", "")
    # Conversations survive a reload, and whatever is in them is text.
    page.evaluate("""text => localStorage.setItem('cascade.conversations', JSON.stringify([{messages: [
        {role: 'user', content: text}, {role: 'assistant', content: text}]}, ...JSON.parse(localStorage.getItem('cascade.conversations'))]))""", HOSTILE)
    page.reload()
    wait(page, "document.querySelectorAll('#levels tr').length > 0")
    assert page.locator("#history option").count() == 8
    expect("hostile answers", page.evaluate("[document.title, document.querySelectorAll('#conversation :is(img, script, a, i)').length,"
                                            "document.querySelectorAll('#conversation :is(strong, pre)').length]"), ["Cascade", 0, 2])
    page.click("text=Edit")
    assert page.input_value("#question") == HOSTILE
    page.keyboard.press("Escape")
    page.click("#forget")
    assert page.locator("#history option").count() == 7
    expect("accessible names", page.evaluate(NAMELESS), [])
    expect("contrast", page.evaluate(CONTRAST), [])
    expect("console", said, [])
    expect("nothing from elsewhere", [url for url in asked if not url.startswith((address, "data:"))], [])
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    expect("fits a telephone", wide, False)
    context.close()


def wait(page, condition):
    """Waits for an expression; not inside the page, whose policy forbids to evaluate texts."""
    until = time.monotonic() + 120
    while not page.evaluate(condition):
        assert time.monotonic() < until, f"in vain: {condition}"
        page.wait_for_timeout(20)


def expect(name, found, expected):
    assert found == expected, f"{name}: {found}"
    print(f"ok  {name}")


def main(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    serve = [program, "serve", "--port", "0", "--max-new-tokens", "60"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                for size in ((1280, 900), (400, 800)):
                    check(browser, address, scheme, size, folder)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=60)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "target/page"))
