"""The Sphinx extension that keeps the pages light: they load what they use, and show their text before scripts run."""

import re
import shutil
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset
from sphinx.errors import ExtensionError
from sphinx.util.images import get_image_size

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
STYLES = Path("styles", "pydata-sphinx-theme.css")
FONTS = Path("vendor", "fontawesome", "webfonts")

ICON_SCRIPT = r"\s*<script[^>]*/fontawesome\.js[^>]*></script>"
EARLY_SCRIPTS = r'\s*<link rel="preload" as="script"[^>]*>'
IMPORTING = r"styles/theme\.css(?=[?\"])"
UNDECIDED = r'localStorage\.getItem\("theme"\) \|\| "auto"'
REAL_THEME = 'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"'
SEARCH_SCRIPTS = r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js"></script>'
# A class such as .fa-play that puts a character of the icon fonts before an element.
ICON_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\[0-9a-f]+"\}')
# A style sheet writes such a character as it is, or as a code.
CHARACTER = re.compile(r"[\ue000-\uf8ff]|\\[ef][0-9a-f]{3}(?=\")")


def replace(pattern, by, text, times):
    """Replace all matches of `pattern`, which must be `times`: the theme is not ours, and may change."""
    text, found = re.subn(pattern, by, text)
    if found != times:
        raise ExtensionError(
            f"light: the theme's pages should have {pattern} {times} times, found {found}; "
            "book/_ext/light.py must follow"
        )
    return text


def light_styles(head):
    """The head's style sheets, without what would delay them, and in the reader's colors from the start.

    The script draws icons a second time (1.5 MB; the theme's web fonts draw them), the preloaded scripts compete with
    the styles, and theme.css does nothing but import basic.css, one more journey before the text can be seen.
    The theme's own script sets light or dark late: a flash, and all styles are computed twice.
    """
    head = replace(ICON_SCRIPT, "", head, 1)
    head = replace(EARLY_SCRIPTS, "", head, 2)
    head = replace(UNDECIDED, f'localStorage.getItem("theme") || ({REAL_THEME})', head, 1)
    return replace(IMPORTING, "basic.css", head, 1)


def late_scripts(head):
    """Let the text come first: all scripts but the one that the others' inline lines need wait for it."""
    return re.sub(r"<script(?=[^>]* src=)(?![^>]* defer)(?![^>]*documentation_options\.js)", "<script defer", head)


def without_search(head):
    """The index of all pages is for search-as-you-type, which is off: only the search page needs it."""
    return replace(SEARCH_SCRIPTS, "", head, 3) if "searchtools.js" in head else head


def late_figures(app, pagename, templatename, context, doctree):
    """Load figures when the reader comes near them, and keep their place free until then."""
    sources = {name: Path(app.srcdir, uri) for uri, name in app.builder.images.items()}

    def late(match):
        size = get_image_size(sources[match["name"]])
        place = f' width="{size[0]}" height="{size[1]}"' if size else ""
        return f'{match["start"]} loading="lazy"{place}'

    if "body" in context:
        context["body"] = re.sub(r'(?P<start><img [^>]*src="[^"]*_images/(?P<name>[^"]+)")', late, context["body"])


def use_few_icons(app, exception):
    """Cut the icon fonts, and the rules that name their icons, down to the icons of this book: 300 kB less a page."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    pages = [Path(app.builder.get_outfilename(name)) for name in [*app.env.found_docs, "search", "genindex"]]
    texts = [path.read_text(encoding="utf-8") for path in pages + sorted((static / "scripts").glob("*-theme.js"))]
    used = set(re.findall(r"\bfa-[a-z0-9-]+", "".join(texts)))

    def keep(match):
        return match[0] if used & set(re.findall(r"fa-[a-z0-9-]+", match[1])) else ""

    styles = ICON_RULE.sub(keep, (THEME / STYLES).read_text(encoding="utf-8"))
    for font in ("fa-solid-900", "fa-regular-400", "fa-brands-400"):
        both = rf'url\(\S+{font}\.woff2\) format\("woff2"\),url\(\S+{font}\.ttf\) format\("truetype"\)'
        styles = replace(both, f'url(../{FONTS.as_posix()}/{font}.woff) format("woff")', styles, 1)
    (static / STYLES).write_text(styles, encoding="utf-8")
    others = [path.read_text(encoding="utf-8") for path in (static / "styles").glob("*.css")]
    found = CHARACTER.findall("".join(others))
    characters = {ord(text) if len(text) == 1 else int(text[1:], 16) for text in found}
    shutil.rmtree(static / FONTS)
    (static / FONTS).mkdir()
    for source in sorted((THEME / FONTS).glob("*.ttf")):
        font = subset.load_font(source, subset.Options())
        few = subset.Subsetter()
        few.populate(unicodes=characters)
        few.subset(font)
        font.flavor = "woff"
        font.save(static / FONTS / f"{source.stem}.woff")


def add_filters(app):
    if app.builder.format == "html":
        for change in (light_styles, late_scripts, without_search):
            app.builder.templates.environment.filters[change.__name__] = change


def setup(app):
    app.config.templates_path.append(str(Path(__file__).parent / "templates"))
    app.connect("builder-inited", add_filters)
    app.connect("html-page-context", late_figures)
    app.connect("build-finished", use_few_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
