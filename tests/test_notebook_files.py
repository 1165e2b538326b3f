"""Static tests: every notebook keeps every rule, and every rule catches the mistakes that it is for (no kernel)."""

import base64
import copy
import importlib.metadata
import io
import re
import tomllib

import nbformat
import pytest
from notebook_rules import RULES, Notebook, checks, printed
from packaging.specifiers import SpecifierSet
from PIL import Image
from rename import current

from notebooks import NOTEBOOKS, ROOT, TEMPLATE, folded, tidy

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.stem)
def notebook(request):
    return Notebook.read(request.param)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_notebook_keeps_the_rule(notebook, rule):
    complaints = rule(notebook)
    assert not complaints, "\n".join([f"{notebook.name} breaks the rule {rule.__name__}:", *complaints])


def test_stored_file_is_what_make_notebooks_writes(notebook):
    """So that a diff shows what changed, and nothing else."""
    nb = copy.deepcopy(notebook.nb)
    tidy(nb)
    text = (NOTEBOOKS / f"{notebook.name}.ipynb").read_text(encoding="utf-8")
    assert text == nbformat.writes(nb) + "\n", f"{notebook.name}: run `make notebooks NAME={notebook.name}`"


def test_published_exercises_have_a_check(notebook):
    """Once a chapter is in the table of contents, its stubs are answered "not yet" (an unknown id passes anything)."""
    if f"notebooks/{notebook.name}" not in TOC:
        pytest.skip("not in the table of contents yet")
    stubs = [cell for cell in notebook.code if checks(cell) and "solution" not in cell.metadata.get("tags", [])]
    unchecked = [cell.id for cell in stubs if "not yet" not in printed(cell).lower()]
    assert not unchecked, f"{notebook.name}: attnlib.exercises does not say 'not yet' in {unchecked}"


# The rules themselves: one good notebook, and one for each mistake.


def good(name="00_template"):
    return Notebook(name, nbformat.read(TEMPLATE, as_version=4))


def cell(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def append(cell_id, text):
    def change(notebook):
        cell(notebook, cell_id).source += text

    return change


def replace(cell_id, old, new):
    def change(notebook):
        target = cell(notebook, cell_id)
        assert old in target.source
        target.source = target.source.replace(old, new)

    return change


def tag(cell_id, *names):
    def change(notebook):
        cell(notebook, cell_id).metadata.tags = list(names)

    return change


def delete(cell_id):
    def change(notebook):
        notebook.nb.cells.remove(cell(notebook, cell_id))

    return change


def output(cell_id, **fields):
    """Give a cell one more output."""

    def change(notebook):
        cell(notebook, cell_id).outputs.append(nbformat.v4.new_output(**fields))

    return change


def stream(cell_id, text, name="stdout"):
    return output(cell_id, output_type="stream", name=name, text=text)


def shows(cell_id, kind, data):
    return output(cell_id, output_type="display_data", data={kind: data})


def markdown(text):
    """Text in a cell that is otherwise fine."""
    return append("loop-meaning", f"\n\n{text}")


def code(text):
    return append("numbers-scores", f"\n{text}")


def picture(color, size=(40, 30), noise=False):
    """Replace the figure by a picture in one color."""

    def change(notebook):
        image = Image.effect_noise(size, 200).convert("RGB") if noise else Image.new("RGBA", size, color)
        for x in (0, size[0] - 1):
            for y in (0, size[1] - 1):
                image.putpixel((x, y), color)
        file = io.BytesIO()
        image.save(file, "PNG")
        for out in cell(notebook, "library-bars").outputs:
            if "image/png" in out.get("data", {}):
                out.data["image/png"] = base64.b64encode(file.getvalue()).decode()

    return change


def every(*changes):
    def change(notebook):
        for one in changes:
            one(notebook)

    return change


def change_each(kind, action):
    def change(notebook):
        for target in notebook.cells:
            if target.cell_type == kind:
                action(target)

    return change


def set_file(**fields):
    return lambda notebook: notebook.nb.update(fields)


def set_cell(cell_id, **fields):
    return lambda notebook: cell(notebook, cell_id).update(fields)


def rename_file(name):
    return lambda notebook: setattr(notebook, "name", name)


WHITE = (255, 255, 255, 255)
FAILED = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["ValueError: no"]}
BARS = "library-bars"
SOLUTION = "exercise-1-solution"
BAD = [
    ("name", rename_file("Masks")),
    ("name", rename_file("07-masks")),
    ("nbformat_4_5", set_file(nbformat_minor=4)),
    ("nbformat_4_5", set_cell("title", outputs=[])),
    ("ids", set_cell("loop", id="3f2a8c1e")),
    ("ids", set_cell("loop", id="a3f2a8c1-7c3d-4b1e-9a77-1f2e3d4c5b6a"[1:])),
    ("ids", set_cell("loop", id="Loop_1")),
    ("ids", set_cell("loop", id="matrix")),
    ("metadata", lambda notebook: notebook.nb.metadata.update(colab={})),
    ("metadata", lambda notebook: notebook.nb.metadata.language_info.update(version="3.11.7")),
    ("metadata", lambda notebook: notebook.nb.metadata.pop("language_info")),
    ("metadata", set_cell("numbers-scores", metadata={"execution": {"iopub.execute_input": "2026"}})),
    ("metadata", set_cell("numbers-scores", metadata={"tags": ["parameters"]})),
    ("metadata", set_cell("loop", metadata={"tags": ["hide-input"]})),
    ("guard", append("guard", "\n# changed")),
    ("guard", delete("guard")),
    ("guard", set_cell("guard", metadata={})),
    ("guard", stream("guard", "installed\n")),
    ("execution_counts", set_cell("numbers-scores", execution_count=None)),
    ("execution_counts", set_cell("numbers-scores", execution_count=9)),
    ("execution_counts", output("numbers-scores", output_type="execute_result", data={}, execution_count=99)),
    ("outputs", set_cell("numbers-scores", outputs=[])),
    ("outputs", set_cell("exercise-1-check", outputs=[])),
    ("stderr", stream("numbers-scores", "Warning: x", "stderr")),
    ("errors", output("numbers-scores", **FAILED)),
    ("errors", tag("numbers-scores", "raises-exception")),
    ("widgets", shows("numbers-scores", "application/vnd.jupyter.widget-view+json", {"model_id": "1"})),
    ("widgets", code("import ipywidgets")),
    ("digits", stream("numbers-scores", "loss 0.0024367336")),
    ("digits", stream("numbers-scores", "<object at 0x7f3a2b1c4d5e>")),
    ("local", markdown("Look into /home/me/attnlib first.")),
    ("local", code(r"path = r'C:\Users'")),
    ("local", stream("numbers-scores", "/tmp/ipykernel_12/34.py")),
    ("local", shows("numbers-scores", "text/html", "<p>/root/x</p>")),
    ("local", stream("numbers-scores", "torch 2.13.0+cpu")),
    ("letters", stream("numbers-scores", "a → b")),
    ("letters", code("# 权重")),
    ("figures", shows("numbers-scores", "image/svg+xml", "<svg/>")),
    ("figures", lambda notebook: cell(notebook, BARS).outputs.extend(cell(notebook, BARS).outputs)),
    ("figures", change_each("code", lambda c: c.update(outputs=[o for o in c.outputs if o.output_type != "stream"]))),
    ("figures", picture((0, 0, 0, 255))),
    ("figures", picture((255, 255, 255, 0))),
    ("figures", picture(WHITE, (400, 400), noise=True)),
    ("alt_text", set_cell(BARS, metadata={})),
    ("alt_text", set_cell(BARS, metadata={"mystnb": {"image": {"alt": "figure"}}})),
    ("alt_text", set_cell("numbers-scores", metadata={"mystnb": {"image": {"alt": "bars for three words here"}}})),
    ("plain_python", code("%timeit scores")),
    ("plain_python", code("!pip list")),
    ("plain_python", code("scores?")),
    ("plain_python", code("get_ipython().run_line_magic('time', '1')")),
    ("semicolons", code("scores;  ")),
    ("empty_cells", set_cell("pytorch-import", source=" \n")),
    ("cell_length", code("x = 1\n" * 25)),
    ("cell_length", change_each("code", lambda c: c.update(source=c.source + "\nx = 1" * 4))),
    ("line_length", code("x = " + "1 + " * 30 + "1")),
    ("network", code("import urllib.request")),
    ("network", code("from requests import get")),
    ("network", code("address = 'https://example.org'")),
    ("network", code("torch.hub.load('a/b', 'c')")),
    ("network", shows("numbers-scores", "text/html", '<script src="//cdn.example.org/x.js"></script>')),
    ("network", markdown("![a figure](https://example.org/a.png)")),
    ("progress", code("from tqdm.auto import tqdm")),
    ("progress", code("from tqdm.notebook import tqdm")),
    ("progress", code("from tqdm import trange")),
    ("timings", code("start = time.perf_counter()")),
    ("prose_in_code", code("print('the largest weight is on the word that matters most')")),
    ("prose_in_code", code("print(f'the weight of {scores} is {scores} and that is what we wanted')")),
    ("prose_in_code", code("ax.set_title('what happens to the weights when the scores grow')")),
    ("assertions", replace("property-shift", "assert ", "_ = ")),
    ("headings", replace("title", "# Title", "Title")),
    ("headings", markdown("# Another title")),
    ("headings", replace("library", "### ", "#### ")),
    ("headings", lambda notebook: notebook.nb.cells.insert(0, notebook.nb.cells.pop(2))),
    ("plain_markdown", markdown("See {ref}`the notes` for more.")),
    ("plain_markdown", markdown("```{note}\nHello\n```")),
    ("plain_markdown", markdown(":::{note}\nHello\n:::")),
    ("plain_markdown", markdown("(label)=\nHello")),
    ("plain_markdown", markdown("+++")),
    ("plain_markdown", markdown("Hello {{ name }}")),
    ("plain_markdown", markdown("Hello.[^1]")),
    ("plain_markdown", markdown("> [!NOTE]\n> Hello")),
    ("plain_markdown", markdown(r"$\newcommand{\R}{\mathbb{R}}$")),
    ("plain_markdown", markdown(r"$$x \label{eq}$$ and \eqref{eq}")),
    ("plain_markdown", markdown("$$\n\\begin{align}\nx &= 1\n\\end{align}\n$$")),
    ("plain_markdown", markdown(r"Hello \(x\).")),
    ("plain_markdown", markdown(r"$\color{red} x$")),
    ("plain_markdown", markdown("<div>Hello</div>")),
    ("plain_markdown", markdown('<img src="a.png">')),
    ("prose", change_each("markdown", lambda c: c.update(source=c.source[: len(c.source) // 3]))),
    ("prose", markdown("word " * 900)),
    ("table_headers", markdown("| | b |\n|---|---|\n| 1 | 2 |")),
    ("code_in_a_row", every(delete("matrix"), delete("library"), delete("loop-meaning"))),
    ("opening", replace("title", "One sentence that", "![picture]")),
    ("opening", replace("title", "Builds on", "Needs")),
    ("opening", replace("title", "About 2 minutes on a CPU", "Quick on a CPU")),
    ("closing", replace("title", "- see where a short formula fails, and what to write instead\n", "")),
    ("closing", replace("you-have", "You have", "You did")),
    ("closing", replace("you-have", "- seen where a short formula fails", "- seen where a formula fails")),
    ("closing", replace("you-have", "**Next.**", "Next")),
    ("references", replace("references", "References", "Papers")),
    ("references", replace("references", "https://arxiv.org/abs/1706.03762", "x.pdf")),
    ("references", replace("references", "https://arxiv.org/abs/1706.03762", "https://example.org/x.pdf")),
    ("references", append("references", "".join(f"\n- [x](https://arxiv.org/abs/1706.0376{i})" for i in range(3)))),
    ("exercises", delete("exercise-2")),
    ("exercises", replace("exercise-1", "Exercise 0.1", "Exercise 0.7")),
    ("exercises", delete("exercise-1-hint")),
    ("exercises", replace("exercise-1-check", "00.1", "00.2")),
    ("exercises", append("exercise-1-check", "\nprint(shifted)")),
    ("exercises", replace("exercise-1-hint", "</details>", "")),
    ("exercises", append("exercise-1-stub", '\ncheck("00.1", shifted)')),
    ("exercises", tag(SOLUTION, "solution")),
    ("exercises", set_cell(SOLUTION, metadata={"tags": ["hide-input", "solution"]})),
    ("exercises", replace(SOLUTION, "#@title Solution 0.1", "# Solution")),
    ("exercises", replace(SOLUTION, 'check("00.1", shifted)', "")),
    ("exercises", replace(SOLUTION, "shifted", "answer")),
    ("exercises", stream(SOLUTION, "Not yet: the sum is 2")),
]
TORCH_LAST = [
    append("numbers-scores", "\nimport torch"),
    append("numbers-scores", "\nfrom torch import nn"),
    append("numbers-scores", "\nx = torch.tensor(1)"),
    replace("pytorch", "The same in PyTorch", "PyTorch"),
    replace("pytorch-import", "import torch", "import numpy"),
]


def caught(notebook, rule):
    """The complaints of the rule with this name."""
    return next(r for r in RULES if r.__name__ == rule)(notebook)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_template_keeps_the_rule(rule):
    assert rule(good()) == []


@pytest.mark.parametrize(("rule", "spoil"), BAD, ids=[f"{rule}-{i}" for i, (rule, _) in enumerate(BAD)])
def test_the_rule_catches_the_mistake(rule, spoil):
    notebook = good()
    spoil(notebook)
    complaints = caught(notebook, rule)
    assert complaints
    assert all(re.match(r"[\w'-]+: \S", complaint) for complaint in complaints)


@pytest.mark.parametrize("spoil", TORCH_LAST, ids=range(len(TORCH_LAST)))
def test_torch_comes_last_in_the_chapters_that_run_in_a_browser(spoil):
    assert caught(good("06_topic"), "torch_last") == []
    spoiled = good("06_topic")
    spoil(spoiled)
    assert caught(spoiled, "torch_last")
    spoiled.name = "08_topic"
    assert caught(spoiled, "torch_last") == []


@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ("opening", replace("title", "Builds on", "Needs")),
        ("closing", replace("you-have", "You have", "You did")),
        ("references", replace("references", "References", "Papers")),
        ("exercises", change_each("markdown", lambda c: c.update(source=c.source.replace("**Exercise", "**Task")))),
    ],
)
def test_only_chapters_need_the_whole_rhythm(rule, without):
    for name, needs in (("00_topic", True), ("A1_topic", False)):
        notebook = good(name)
        without(notebook)
        assert bool(caught(notebook, rule)) == needs


def test_exercises_of_an_appendix_have_the_form_of_those_of_chapters():
    assert caught(good("A1_topic"), "exercises")  # the template's are numbered 0.1, 0.2, ...

    def renumber(c):
        c.source = c.source.replace(" 0.", " A1.").replace('"00.', '"A1.')

    notebook = good("A1_topic")
    for kind in ("markdown", "code"):
        change_each(kind, renumber)(notebook)
    for c in notebook.code:
        if "solution" in c.metadata.get("tags", []):
            c.metadata = nbformat.from_dict(folded(c.source, tags=["hide-input", "solution"]))
    assert caught(notebook, "exercises") == []
    delete("exercise-1-hint")(notebook)
    assert caught(notebook, "exercises")


def test_every_rule_has_a_mistake_to_catch():
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in BAD} | {"torch_last"}


def test_a_guard_differing_in_one_character_is_named():
    notebook = good()
    replace("guard", "NEEDS", "NEED")(notebook)
    assert caught(notebook, "guard") == ["guard: differs from tests/guard.py; `make notebooks` refreshes it"]


def test_what_is_allowed_passes():
    """Mistaken complaints would push authors to worse text."""
    notebook = good()
    fine = [
        "`{a}` and `x[^1]` in code, $\\{a\\}$, $a < b > c$",
        "$$\\left[\\begin{aligned}x&=1\\\\[2pt]\\end{aligned}\\right]$$",
        "> **Note.** A callout.",
        "<details><summary>More</summary>\n\nText\n\n</details>",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ]
    markdown("\n\n".join(fine))(notebook)
    assert caught(notebook, "plain_markdown") == []
    tag("numbers-scores", "raises-exception")(notebook)
    output("numbers-scores", **FAILED)(notebook)
    assert caught(notebook, "errors") == []
    code("start = time.perf_counter()")(notebook)
    tag("numbers-scores", "nbval-ignore-output")(notebook)
    assert caught(notebook, "timings") == []


# The repository


def test_the_repository_is_the_same_everywhere():
    repo = current()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["urls"]["Repository"] == f"https://github.com/{repo}"
    assert f"attnlib @ https://github.com/{repo}/archive/HEAD.zip" in (ROOT / "tests" / "guard.py").read_text()
    owner, name = repo.lower().split("/")
    for file in ("README.md", "CITATION.cff", "_config.yml", "book/intro.md"):
        text = (ROOT / file).read_text(encoding="utf-8").lower()
        named = re.findall(r"github\.com/([\w-]+/[\w-]+)", text)
        named += ["/".join(pair) for pair in re.findall(r"([\w-]+)\.github\.io/([\w-]+)", text)]
        assert f"{owner}/{name}" in named, f"{file} must have the address of {repo}"


def test_constraints_hold_on_other_machines():
    """torch==2.13.0+cpu, paths and addresses install nowhere but here."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(lines)
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][A-Za-z0-9.]*", line)] == []


def test_constraints_agree_with_the_requirements():
    exact = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)$", re.M)
    frozen = dict(exact.findall((ROOT / "constraints.txt").read_text()))
    wanted = dict(exact.findall((ROOT / "requirements.txt").read_text()))
    assert wanted
    assert {name: frozen.get(name) for name in wanted} == wanted, "run `make lock`"


def test_constraints_hold_on_the_oldest_python():
    """Debian 12 has Python 3.11.2; `make lock` on a newer 3.11 may take a package that refuses it."""
    oldest = "3.11.0"
    refusing = [
        dist.name
        for dist in importlib.metadata.distributions()
        if not SpecifierSet(dist.metadata.get("Requires-Python") or "").contains(oldest)
    ]
    assert refusing == [], f"pin an older version in requirements.txt, then run `make lock`: {refusing}"
