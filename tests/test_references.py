"""The references page and the chapters agree: the same works, the same titles and years, and who cites what."""

import re

import nbformat
import pytest
from notebook_rules import PAPERS

from notebooks import NOTEBOOKS, ROOT

LINK = re.compile(r"https?://[^\s)>\]\"'`;,]+")
# An entry, here or in a chapter: authors (year). [title](link). More.
ENTRY = re.compile(
    r"^- (?P<authors>[^()]+) \((?P<year>\d{4})\)\. \[(?P<title>[^]]+)\]\((?P<link>\S+?)\)\.? ?(?P<rest>.*)$"
)
PAGE = (ROOT / "book" / "references.md").read_text(encoding="utf-8")
TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")
PATHS = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if f"notebooks/{path.stem}\n" in TOC]
CHAPTERS = {path.stem: nbformat.read(path, as_version=4).cells for path in PATHS}


def entries(text):
    """The entries of a list, each joined into one line and taken apart."""
    lines = re.sub(r"\n  +", " ", text).splitlines()
    return [(line, ENTRY.match(line)) for line in lines if line.startswith("- ")]


def text_of(cells):
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def list_of(name):
    """The reference list of a chapter, or nothing."""
    return text_of(CHAPTERS[name]).partition("\n## References\n")[2] or text_of(CHAPTERS[name][-1:])


def surnames(authors):
    """The names that a chapter would print: all of up to four authors, else the first."""
    names = [re.sub(r"^([A-Z][\w.-]* )+", "", name) for name in re.split(r", | and ", authors.removesuffix(" et al."))]
    if len(names) > 4 or authors.endswith(" et al."):
        return f"{names[0]} et al."
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


WORKS = {match["link"]: match for _, match in entries(PAGE) if match}


def test_every_entry_of_the_page_has_authors_year_title_and_link_and_stands_once():
    broken = [line for line, match in entries(PAGE) if not match]
    assert broken == []
    assert len(WORKS) == len(entries(PAGE)) > 40


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_lists_its_references_as_the_page_does(name):
    listed = entries(list_of(name))
    assert listed
    for line, match in listed:
        assert match, f"not 'authors (year). [title](link). ...': {line}"
        work = WORKS.get(match["link"])
        assert work, f"book/references.md lacks {match['link']}"
        expected = (surnames(work["authors"]), work["year"], work["title"])
        assert (match["authors"], match["year"], match["title"]) == expected


def test_the_page_names_the_chapters_that_cite_a_work():
    cited = {name: set(LINK.findall(text_of(cells))) for name, cells in CHAPTERS.items()}
    for link, work in WORKS.items():
        chapters = [name.split("_")[0] for name, links in cited.items() if link in links]
        assert chapters, f"no chapter cites {link}"
        assert re.findall(r"\[(\w\w)\]", work["rest"]) == chapters, link
    links = dict(re.findall(r"^\[(\w\w)\]: \.\./notebooks/(.*)\.ipynb$", PAGE, re.M))
    assert {number: name for number, name in links.items() if name in CHAPTERS} == links
    assert [name[:2] for name in links.values()] == list(links)


def test_every_paper_that_is_linked_anywhere_is_on_the_page():
    texts = {name: text_of(cells) for name, cells in CHAPTERS.items()}
    for path in [*(ROOT / "attnlib").glob("*.py"), *(ROOT / "book").rglob("*.md")]:
        texts[path.name] = path.read_text(encoding="utf-8")
    missing = {
        (name, link.rstrip("."))
        for name, text in texts.items()
        for link in LINK.findall(text)
        if re.match(PAPERS, link) and link.rstrip(".") not in WORKS
    }
    assert missing == set()
