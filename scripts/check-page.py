#!/usr/bin/env python3
"""Uses the page of `cascade serve` in headless Chromium, as people do: with the keyboard, in light and dark, wide and narrow.

    scripts/check-page.py target/release/cascade [--screenshots FOLDER] [--ratio]
    scripts/check-page.py --report results/table2/report.html [--screenshots FOLDER]

Debian's Chromium is found (`apt install chromium`), as is what CHROMIUM names; playwright is installed into target/page-venv,
with pip, when it is not there yet. Fails if the end of an answer is out of view in any frame while it streams, the console is
not clean, something loads from elsewhere, or something that can be used has no accessible name.

--ratio compares the page's speed against plain decoding with that of `cascade run --compare` on the same question, by medians
of both in turn, and fails if they differ by more than 15%. It measures times, so it wants a machine with nothing else to do.

--report opens a report of `cascade-lab reproduce` instead, in a window of 1280 pixels and on pages of A4, and fails if a table
or a plot is cut in either.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLAYWRIGHT = "1.65.2"
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
TOKENS = 60
# How often the page and `run --compare` are asked for a ratio, and how far their medians may be apart. Both ask anew each time:
# the page in sessions of their own, the program in a round for each of the page's.
ASKED, APART = 9, 0.15

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
# What is true of every frame that was painted while an answer came: how long it was, and whether its end could be seen. A
# ResizeObserver is called after layout and before painting.
WATCH = """() => {
  window.watched = [];
  const box = document.getElementById('conversation');
  const sizes = new ResizeObserver(entries => entries.forEach(({target}) => {
    const [all, end] = [box.getBoundingClientRect(), target.getBoundingClientRect().bottom];
    const seen = end <= Math.min(innerHeight, all.bottom) && end > Math.max(0, all.top);
    if (target.isConnected && !document.getElementById('stop').disabled) window.watched.push([target.textContent.length, seen]);
  }));
  new MutationObserver(() => {
    const last = [...box.querySelectorAll('.message')].at(-1);
    if (last?.querySelector('b').textContent === 'Answer') sizes.observe(last.querySelector('.text'));
  }).observe(box, {childList: true, subtree: true});
}"""
# Pixels of a millimetre, and what is cut at the right, by its caption.
MM = 96 / 25.4
CUT = """what => [...document.querySelectorAll(what)].filter(e => e.scrollWidth > e.clientWidth + 1
    || e.getBoundingClientRect().left < -1 || e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.closest('figure').textContent.slice(0, 80))"""
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
    streams_in_view(page, folder / f"page-{scheme}-{size[0]}-long.png")
    page.click("#forget")
    page.reload()
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
    page.fill("#repetition", "1.5")
    with page.expect_request("**/completions") as sent:
        page.click("text=Again")
    answered(page)
    expect("the penalty is asked for", sent.value.post_data_json["repetition_penalty"], 1.5)
    page.fill("#repetition", "")
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


def streams_in_view(page, screenshot):
    """A long answer, which the demo makes of what it does not know: its end is in view in every frame."""
    at_most(page, 300)
    page.evaluate(WATCH)
    page.fill("#question", "Tell me a long story about a dog, a cat and the sea.")
    page.keyboard.press("Enter")
    wait(page, "window.watched.length > 0")
    page.screenshot(path=screenshot)
    answered(page)
    watched = page.evaluate("window.watched")
    lengths = sorted({length for length, _ in watched})
    assert len(lengths) > 3 and lengths[-1] > 150, f"the answer did not stream: {lengths}"
    expect(f"the end of the answer is in view in {len(watched)} frames", all(seen for _, seen in watched), True)


def at_most(page, tokens):
    page.click("#settings summary")
    page.fill("#length", str(tokens))
    page.click("#settings summary")


def wait(page, condition):
    """Waits for an expression; not inside the page, whose policy forbids to evaluate texts."""
    until(page, lambda: page.evaluate(condition), condition)


def until(page, holds, what="what should come"):
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"in vain: {what}"
        page.wait_for_timeout(20)


def expect(name, found, expected):
    assert found == expected, f"{name}: {found}"
    print(f"ok  {name}")


def compare(page, address, program):
    """The ratio of the page and that of the command line, on the question that the page begins with."""
    page.goto(address)
    wait(page, "document.querySelectorAll('#levels tr').length > 0")
    question = page.input_value("#question")
    page.focus("#question")
    page.keyboard.press("Enter")
    answered(page)
    # Both know what rows cost here, the server of earlier requests and the program of its warm-up, and neither the answer.
    command = [program, "run", "--config", "embedded:demo-llama", "--max-new-tokens", str(TOKENS), "--compare", "--rounds", str(ASKED),
               "--json", question]
    own, others = [], []
    for _ in range(ASKED):
        page.click("#compare")
        wait(page, "/^(Compared|Error)/.test(document.getElementById('status').textContent)")
        own.append(float(page.inner_text("#ratio").split()[0]))
        done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
        others.append(json.loads(done.stdout.splitlines()[0])["speedup"])
    page_ratio, run_ratio = statistics.median(own), statistics.median(others)
    print(f"page {page_ratio:.2f} × plain ({min(own):.2f} to {max(own):.2f}), run --compare {run_ratio:.2f} × ({min(others):.2f} to {max(others):.2f})")
    expect(f"the page's ratio is within {APART:.0%} of that of run --compare", abs(page_ratio / run_ratio - 1) <= APART, True)


def check_report(browser, report, folder):
    """Nothing is wider than the window, or than a page of A4: upright, or across for what is printed across."""
    page = browser.new_page()
    for name, media, width, what in (
        ("window", "screen", 1280, "table, .plot svg"),
        ("page", "print", MM * (210 - 2 * 14), "figure:not(.wide) table, .plot svg"),
        ("page across", "print", MM * (297 - 2 * 12), ".wide table"),
    ):
        page.set_viewport_size({"width": int(width), "height": 900})
        page.emulate_media(media=media, color_scheme="light")
        page.goto(report.resolve().as_uri())
        expect(f"everything fits the {name}", page.evaluate(CUT, what), [])
        page.screenshot(path=folder / f"report-{name.replace(' ', '-')}.png", full_page=True)
    page.pdf(path=folder / "report.pdf", format="A4", prefer_css_page_size=True, print_background=True)


def chromium():
    """Where Chromium is, if it is found."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def browser_of(play):
    return play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])


def main(options):
    from playwright.sync_api import sync_playwright

    options.screenshots.mkdir(parents=True, exist_ok=True)
    if options.report:
        with sync_playwright() as play:
            browser = browser_of(play)
            check_report(browser, options.report, options.screenshots)
            browser.close()
        return
    serve = [options.program, "serve", "--port", "0", "--max-new-tokens", str(TOKENS)]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        with sync_playwright() as play:
            browser = browser_of(play)
            if options.ratio:
                compare(browser.new_page(), address, options.program)
            else:
                for scheme in ("light", "dark"):
                    for size in ((1280, 900), (400, 800)):
                        check(browser, address, scheme, size, options.screenshots)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=60)


def interpreter():
    """An interpreter that has playwright."""
    home = ROOT / "target" / "page-venv"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    check = f"import importlib.metadata as m; assert m.version('playwright') == {PLAYWRIGHT!r}"
    if subprocess.run([python, "-c", check], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"playwright=={PLAYWRIGHT}"]
        subprocess.run(install, check=True)
    return python


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE")
    parser.add_argument("program", nargs="?", default="target/release/cascade", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--screenshots", type=pathlib.Path, default=ROOT / "target" / "page", metavar="FOLDER")
    parser.add_argument("--ratio", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    if not options.here:
        sys.exit(subprocess.run([interpreter(), __file__, *sys.argv[1:], "--here"], check=False).returncode)
    main(options)
