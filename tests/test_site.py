"""The built site in a real browser: whole, self-contained, readable in light and dark, on a desk and on a phone."""

import gzip
import re
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import urldefrag, urljoin, urlsplit

import nbformat
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from book_build import ROOT, build_book, copy_book
from browser import find_browser, launched
from fontTools.ttLib import TTFont
from server import served

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [TOC["root"]] + [chapter["file"] for part in TOC["parts"] for chapter in part["chapters"]]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]
MODES = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
EVERY_PAGE = pytest.mark.parametrize("name", PAGES)
EVERY_DESK = pytest.mark.parametrize("desk", PAGES, indirect=True)
EVERY_QUIZ = pytest.mark.parametrize("name", ["book/part_1", "book/part_2", "book/part_3"])

# What a first visit to a page may load, in bytes, gzipped: without its figures, and with them.
BUDGET, BUDGET_WITH_FIGURES = 500_000, 900_000

# What axe finds in the theme's own parts: the rule, and the only elements for which it is accepted.
OF_THE_THEME = {"region": ".sidebar-primary-item:has(> .navbar-brand)"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built book, at `.url`, with its files in `.folder`. The URL has a path, as on project pages."""
    find_browser()
    source = tmp_path_factory.mktemp("book")
    copy_book(source, "_config.yml", "_toc.yml", "pyproject.toml", "attnlib", "book", "notebooks")
    status, printed = build_book(source)
    assert status == 0, printed
    (source / "_build" / "html").rename(source / "_build" / "course")

    with served(source / "_build") as address:
        yield SimpleNamespace(url=f"{address}course/", folder=source / "_build" / "course")


@pytest.fixture(scope="module")
def browser():
    with launched() as chromium:
        yield chromium


@contextmanager
def opening(browser, site):
    """open_page(path, ...) loads a page and returns it; `page.seen` holds what went wrong and what was asked for."""
    contexts = []

    def open_page(path, dark=False, width=1280, height=900, **settings):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **settings
        )
        contexts.append(context)
        seen = SimpleNamespace(foreign=[], missing=[], console=[], requests=[])

        def route(route):
            url = route.request.url
            seen.requests.append(url)
            if url.startswith(site.url):
                route.continue_()
            else:
                seen.foreign.append(url)
                route.abort()

        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda m: seen.console.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.console.append(str(error)))
        page.on("response", lambda r: seen.missing.append(r.url) if r.status >= 400 else None)
        page.seen = seen
        page.goto(site.url + path, wait_until="networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def open_page(browser, site):
    with opening(browser, site) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def desk(browser, site, request):
    """A page on a desk in light colors, opened once for all the tests that only look at it."""
    with opening(browser, site) as open_page:
        yield open_page(f"{request.param}.html")


@pytest.fixture
def name(desk, request):
    """Which page `desk` is."""
    return request.node.callspec.params["desk"]


def healthy(page):
    seen = page.seen
    assert (seen.foreign, seen.missing, seen.console) == ([], [], [])


def loaded_fonts(page):
    loaded = "[...document.fonts].filter(font => font.status == 'loaded').map(font => font.family)"
    return {family.strip('"') for family in page.evaluate(loaded)}


def test_no_page_asks_another_host_complains_or_links_nowhere(open_page, site):
    page = open_page("")
    links, anchors, queue = {}, {}, [site.url + "index.html"]
    while queue:
        url = queue.pop()
        page.goto(url, wait_until="networkidle")
        here = urldefrag(page.url).url
        anchors[url] = anchors[here] = set(page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)"))
        found = page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))")
        for link in (urljoin(here, href) for href in found if not href.startswith(("mailto:", "javascript:"))):
            if link.startswith(site.url):
                target = urldefrag(link).url
                links.setdefault(link, here)
                if target.endswith(".html") and target not in anchors and target not in queue:
                    queue.append(target)
    healthy(page)
    for link, source in links.items():
        target, anchor = urldefrag(link)
        if target in anchors:
            assert anchor in anchors[target] | {""}, f"{source} links to {link}, which has no such anchor"
        else:
            path = urlsplit(target).path.removeprefix(urlsplit(site.url).path)
            assert (site.folder / path).is_file(), f"{source} links to {link}"
    assert {site.url + name + ".html" for name in PAGES} <= set(anchors)


def test_the_landing_page_links_to_every_page(open_page):
    page = open_page(f"{TOC['root']}.html")
    linked = page.evaluate("[...document.querySelectorAll('article a')].map(a => a.href)")
    missing = [name for name in PAGES[1:] if not any(link.endswith(f"/{name}.html") for link in linked)]
    assert missing == []


def source_of(name):
    return next(ROOT.glob(f"{name}.*")).read_text(encoding="utf-8")


def math_sizes(page, selector):
    """The smaller of width and height of each formula, in pixels; 0 if nothing is drawn."""
    return page.locator(selector).evaluate_all(
        """all => all.map(m => {
            const box = m.querySelector('.katex-html')?.getBoundingClientRect();
            return box ? Math.min(box.width, box.height) : 0;
        })"""
    )


@EVERY_DESK
def test_math_is_drawn(desk, name):
    sizes = math_sizes(desk, "article .math:not(.reason .math)")  # reasons of a quiz are hidden at first
    assert bool(sizes) == ("$" in source_of(name))
    if sizes:
        assert min(sizes) > 3
        assert {"KaTeX_Main", "KaTeX_Math"} <= loaded_fonts(desk)
    text = desk.evaluate(
        """(() => {
            const copy = document.querySelector('article').cloneNode(true);
            copy.querySelectorAll('.katex, pre, code, script, style').forEach(e => e.remove());
            return copy.textContent;
        })()"""
    )
    assert re.findall(r"\$[^ ]|\\[a-zA-Z]+", text) == []


@EVERY_DESK
def test_the_theme_is_repaired(desk):
    healthy(desk)
    assert [url for url in desk.seen.requests if re.search("thebe|fontawesome.*js", url)] == []
    assert "thebe" not in desk.content()
    assert desk.locator("form.bd-search:visible, .search-button-field:visible").count() == 1
    assert any("Font Awesome" in font for font in loaded_fonts(desk)), "the icons have no font"
    icon = desk.request.get(desk.evaluate("document.querySelector('link[rel=icon]').href"))
    assert icon.ok
    assert icon.headers["content-type"] == "image/svg+xml"
    described = desk.locator("meta[name=description]")
    assert described.count() == 1
    assert len(described.get_attribute("content")) > 40
    assert desk.title().endswith(CONFIG["title"])


def card(page):
    """What the page tells those who draw a preview of a link to it."""
    found = (
        "[...document.querySelectorAll('meta[property^=\"og:\"]')].map(m => [m.getAttribute('property'), m.content])"
    )
    return dict(page.evaluate(found))


@EVERY_DESK
def test_a_link_to_a_page_has_a_card(desk, site, name):
    base, told = CONFIG["html"]["baseurl"], card(desk)
    assert told["og:url"] == f"{base}{name}.html"
    assert (site.folder / told["og:image"].removeprefix(base)).read_bytes()[:4] == b"\x89PNG"
    assert told["og:description"] == desk.locator("meta[name=description]").get_attribute("content")
    assert desk.title() == f"{told['og:title']} \N{EM DASH} {CONFIG['title']}"
    assert desk.locator("meta[name='twitter:card']").get_attribute("content") == "summary_large_image"


def test_the_address_without_a_page_has_the_card_of_the_landing_page(open_page, browser, site):
    landing = card(open_page(f"{TOC['root']}.html"))
    page = browser.new_page()
    page.set_content((site.folder / "index.html").read_text(encoding="utf-8").replace("http-equiv", "data-off"))
    assert card(page) == landing
    page.close()
    assert open_page("").url == f"{site.url}{TOC['root']}.html"


@EVERY_PAGE
def test_a_page_loads_little_and_keeps_the_place_of_its_figures(open_page, site, name):
    page = open_page(f"{name}.html")
    # What a reader comes to by scrolling and unfolding counts, too.
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    page.evaluate("document.querySelectorAll('img').forEach(image => { image.loading = 'eager'; })")
    page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth)")
    page.evaluate("document.fonts.ready.then(() => true)")
    healthy(page)
    files = {urlsplit(url).path.removeprefix(urlsplit(site.url).path) for url in page.seen.requests}
    sizes = {file: len(gzip.compress((site.folder / file).read_bytes())) for file in files}
    figures = {file: size for file, size in sizes.items() if file.startswith(("_images/", "_static/picture"))}
    assert sum(sizes.values()) - sum(figures.values()) <= BUDGET, sizes
    assert sum(sizes.values()) <= BUDGET_WITH_FIGURES, figures
    assert len(figures) == page.locator("article img").count(), "some figure is not counted"
    moving = page.evaluate(
        """[...document.querySelectorAll('article img')].filter(image =>
            image.getAttribute('width') != image.naturalWidth || image.getAttribute('height') != image.naturalHeight
        ).map(image => image.src)"""
    )
    assert moving == [], "the text would jump when these figures arrive"
    page.set_viewport_size({"width": 390, "height": 800})
    bent = page.evaluate(
        """[...document.querySelectorAll('article img')].filter(image =>
            Math.abs(image.height - image.width / image.naturalWidth * image.naturalHeight) > 1
        ).map(image => image.src)"""
    )
    assert bent == [], "these figures are not shown as they were drawn"


@EVERY_DESK
def test_every_icon_is_in_the_fonts(desk, site):
    icons = desk.evaluate(
        """[...document.querySelectorAll('body *')].flatMap(element => ['::before', '::after'].map(part => {
            const {content, fontFamily, fontWeight} = getComputedStyle(element, part);
            return [content.replaceAll('"', ''), fontFamily, fontWeight];
        })).filter(([content, family]) => /Font Awesome/.test(family) && /^[\ue000-\uf8ff]$/.test(content))"""
    )
    folder = site.folder / "_static" / "vendor" / "fontawesome" / "webfonts"
    fonts = {path.stem: set(TTFont(path).getBestCmap()) for path in folder.glob("*.woff")}
    assert icons
    for character, family, weight in icons:
        font = "fa-brands-400" if "Brands" in family else "fa-solid-900" if weight == "900" else "fa-regular-400"
        assert ord(character) in fonts[font], f"{font} lacks {ord(character):x}"


def test_the_first_colors_are_the_readers(open_page):
    page = open_page(f"{TOC['root']}.html", dark=True)
    page.evaluate("localStorage.clear()")
    page.route("**/*.js*", lambda route: route.abort())
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "a flash of light before the scripts run"


@EVERY_DESK
def test_a_chapter_opens_in_colab_and_downloads(desk, site, name):
    links = set(desk.evaluate("[...document.querySelectorAll('.bd-header-article a')].map(a => a.href)"))
    repository, suffix = CONFIG["repository"]["url"], "ipynb" if name in CHAPTERS else "md"
    assert {repository, f"{repository}/edit/main/{name}.{suffix}"} <= links
    assert any(link.startswith(f"{repository}/issues/new?") for link in links)
    path = f"{repository.removeprefix('https://github.com/')}/blob/main/{name}.ipynb"
    colab = {link for link in links if "colab.research" in link}
    assert colab == ({f"https://colab.research.google.com/github/{path}"} if name in CHAPTERS else set())
    source = f"{site.url}_sources/{name}.{suffix}"
    assert source in links
    assert desk.request.get(source).body().strip() == (ROOT / f"{name}.{suffix}").read_bytes().strip()


@EVERY_DESK
def test_a_chapter_with_a_numpy_half_runs_in_the_browser(desk, site, name):
    runs = name in CHAPTERS and any(
        "## The same in PyTorch" in cell.source.splitlines()
        for cell in nbformat.read(ROOT / f"{name}.ipynb", as_version=4).cells
    )
    buttons = desk.locator(".bd-header-article a.btn-lite:visible")
    assert buttons.count() == runs
    if runs:
        file = name.removeprefix("notebooks/") + ".ipynb"
        assert buttons.evaluate("a => a.href") == f"{site.url}lite/notebooks/index.html?path={file}"
        assert (site.folder / "lite" / "files" / file).read_bytes() == (ROOT / "notebooks" / file).read_bytes()
    assert [url for url in desk.seen.requests if "/lite/" in url] == [], "something is loaded before the click"


def test_search_finds_softmax(open_page):
    page = open_page(f"{TOC['root']}.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    # Sphinx adds the results one by one, so the test waits for the one it is after.
    page.wait_for_selector("#search-results li a[href*='notation.html']")
    healthy(page)


@MODES
@EVERY_PAGE
def test_axe_finds_nothing_of_ours(open_page, name, dark):
    page = open_page(f"{name}.html", dark=dark)
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    # One token of code that is seen is enough for each class, and most of what axe would look at is code.
    page.evaluate(
        """for (const seen of [new Set()])
            for (const token of document.querySelectorAll('pre span')) {
                if (!token.checkVisibility({contentVisibilityAuto: true})) continue;
                const {color, backgroundColor} = getComputedStyle(token);
                const look = `${token.className} ${color} ${backgroundColor}`;
                if (seen.has(look)) token.replaceWith(...token.childNodes); else seen.add(look);
            }"""
    )
    found = []
    for violation in Axe().run(page).response["violations"]:
        known = OF_THE_THEME.get(violation["id"], "not-a-known-element")
        for node in violation["nodes"]:
            if not page.locator(node["target"][-1]).first.evaluate("(e, known) => e.matches(known)", known):
                found.append((violation["id"], node["target"], node.get("failureSummary")))
    assert found == []


@MODES
@EVERY_PAGE
def test_a_phone_needs_no_sideways_scroll(open_page, name, dark):
    page = open_page(f"{name}.html", dark=dark, width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    overlaps = page.evaluate(
        """[...document.querySelectorAll('.katex-html:has(> .tag)')].filter(formula => {
            const edge = Math.max(...[...formula.querySelectorAll(':scope > .base')]
                .map(base => base.getBoundingClientRect().right));
            return formula.querySelector(':scope > .tag').getBoundingClientRect().left < edge;
        }).map(formula => formula.textContent)"""
    )
    assert overlaps == []


def test_our_figures_have_no_light_plate_in_dark_mode(open_page):
    page = open_page(f"{TOC['root']}.html", dark=True)
    page.evaluate(
        """document.querySelector('article').insertAdjacentHTML('beforeend', `<div class="cell_output">
            <div class="output text_html"><div class="attnlib">ours</div></div>
            <div class="output text_html"><div>foreign</div></div></div>`)"""
    )
    plates = page.evaluate(
        "[...document.querySelectorAll('.output.text_html')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert plates[0] == "rgba(0, 0, 0, 0)"
    assert plates[1] != plates[0], "the theme has no plate any more: drop the rule in course.css"


@EVERY_PAGE
def test_paper_shows_the_solutions_and_cuts_nothing(open_page, name):
    page = open_page(f"{name}.html", width=673)  # A4 between the margins of course.css
    page.emulate_media(media="print")
    shown = "details => details.lastElementChild.checkVisibility({contentVisibilityAuto: true})"
    folds = "[...document.querySelectorAll('article details{}')]"
    page.wait_for_function(f"{folds.format(':not(.hide)')}.every({shown})", timeout=10_000)
    page.wait_for_function(f"{folds.format(':is(.tag_solution *)')}.every({shown})", timeout=10_000)
    assert not page.evaluate(f"{folds.format('.hide:not(.tag_solution *)')}.some({shown})"), "the first cell is open"
    buttons = ".bd-sidebar, .bd-header, .bd-header-article, .prev-next-area, .bd-footer, .copybtn, .headerlink"
    assert page.locator(buttons).locator("visible=true").count() == 0
    cut = page.evaluate(
        """[...document.querySelectorAll('article *:not(.katex-mathml, .katex-mathml *, .katex svg *)')].filter(e => {
            const scrolls = getComputedStyle(e).overflowX != 'visible' && e.clientWidth;
            return e.checkVisibility() && (e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
                || scrolls && e.scrollWidth > e.clientWidth + 1 && !e.closest('.katex'));
        }).map(e => [e.tagName, e.className, e.textContent])"""
    )
    assert cut == []


def test_paper_is_light_in_dark_mode(open_page):
    page = open_page(f"{CHAPTERS[0]}.html", dark=True)
    page.wait_for_function("document.readyState == 'complete'")
    page.evaluate(
        """addEventListener('beforeprint', () => {
            const texts = document.querySelectorAll('article :is(p, li, td, p a, code, h2, pre, pre span, .katex)');
            window.printed = [...new Set([...texts].map(text => getComputedStyle(text).color))];
        })"""
    )
    page.pdf()
    colors = [[int(channel) / 255 for channel in re.findall(r"\d+", c)[:3]] for c in page.evaluate("window.printed")]
    assert len(colors) > 5
    for color in colors:
        channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = sum(part * c for part, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))
        assert 1.05 / (luminance + 0.05) > 4.5, f"{color} on white"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the screen stays light"


def reasons_shown(question):
    """What a screen reader finds in the status boxes of the four options: the reason, or nothing."""
    return [box.inner_text() for box in question.get_by_role("status").all()]


@EVERY_QUIZ
def test_a_quiz_is_answered_by_keyboard(open_page, name):
    page = open_page(f"{name}.html")
    questions = page.locator("fieldset.quiz").all()
    score = page.locator(".quiz-score")
    page.locator("#the-quiz > p").first.click()  # Tab goes on from here
    for number, question in enumerate(questions, 1):
        assert score.inner_text() == ""
        presses = 0
        while page.evaluate("document.activeElement.name") != f"question-{number}":
            page.keyboard.press("Tab")
            presses += 1
            assert presses < 5, f"question {number} cannot be reached"  # a reason above may hold links
        assert reasons_shown(question) == [""] * 4, "a reason is told before an answer"
        page.keyboard.press("Space")
        options = question.get_by_role("radio")
        right = options.evaluate_all("all => all.map(input => 'right' in input.dataset)").index(True)
        for place in range(4):
            shown = reasons_shown(question)
            verdict = "\u2713 Right." if place == right else "\u2717 Wrong."
            assert options.nth(place).is_checked()
            assert shown[place].startswith(verdict)
            assert len(shown[place]) > len(verdict) + 20
            assert shown[:place] + shown[place + 1 :] == [""] * 3
            page.keyboard.press("ArrowDown")  # after the last one comes the first
        for _ in range(right):
            page.keyboard.press("ArrowDown")
    assert score.inner_text() == f"{len(questions)} of {len(questions)} right."
    page.keyboard.press("ArrowDown")
    assert score.inner_text() == f"{len(questions) - 1} of {len(questions)} right."
    assert score.get_attribute("role") == "status"
    assert len(questions) >= 6
    healthy(page)


@EVERY_QUIZ
def test_a_quiz_needs_no_script(open_page, name):
    page = open_page(f"{name}.html", java_script_enabled=False)
    for question in page.locator("fieldset.quiz").all():
        for place, label in enumerate(question.locator("label").all()):
            label.click()
            assert [bool(text) for text in reasons_shown(question)] == [i == place for i in range(4)]


@EVERY_QUIZ
def test_a_printed_quiz_has_all_reasons(open_page, name):
    page = open_page(f"{name}.html")
    reasons = page.locator("fieldset.quiz .reason").all()
    assert len(reasons) >= 24
    assert not any(reason.is_visible() for reason in reasons)
    page.emulate_media(media="print")
    assert all(reason.is_visible() for reason in reasons)
    assert min(math_sizes(page, ".reason .math")) > 3


@EVERY_QUIZ
def test_a_question_stands_in_a_box_of_its_own(open_page, name):
    for width in (1280, 390):
        page = open_page(f"{name}.html", width=width)
        outside = page.evaluate(
            """[...document.querySelectorAll('fieldset.quiz')].flatMap(box => {
                const edge = box.getBoundingClientRect();
                return [...box.children].filter(child => {
                    const own = child.getBoundingClientRect();
                    return own.left < edge.left || own.right > edge.right || own.top < edge.top + 1;
                }).map(child => child.textContent);
            })"""
        )
        assert outside == []
