"""The rules that every notebook keeps: each takes a Notebook and returns its complaints, "cell: what is wrong"."""

import ast
import base64
import functools
import io
import itertools
import re
import statistics
from dataclasses import dataclass

import nbformat
from PIL import Image

from notebooks import FOLDED, GUARD, METADATA, NAME, folded

RULES = []
# Chapters that also run in a browser, where there is no PyTorch.
TORCH_LAST = ("02", "05", "06", "07")
TAGS = {"hide-input", "hide-output", "nbval-ignore-output", "raises-exception", "solution"}
PAPERS = (
    r"https://(arxiv\.org|doi\.org|aclanthology\.org|openreview\.net|papers\.n(eur)?ips\.cc|"
    r"proceedings\.[a-z.]+|(www\.)?jmlr\.org|distill\.pub|transformer-circuits\.pub)/"
)
NETWORK = {"urllib", "requests", "httpx", "http", "socket", "ftplib", "wget", "gdown", "datasets", "huggingface_hub"}
WIDGETS = {"ipywidgets", "ipympl", "anywidget", "google"}
LABELS = {"print", "set_title", "set_xlabel", "set_ylabel", "suptitle", "title", "xlabel", "ylabel", "text", "annotate"}


@dataclass
class Notebook:
    """A notebook as the rules see it: its name (such as 06_scaled_dot_product) and its cells."""

    name: str
    nb: nbformat.NotebookNode

    @classmethod
    def read(cls, path):
        return cls(path.stem, nbformat.read(path, as_version=nbformat.NO_CONVERT))

    @property
    def number(self):
        return self.name.split("_")[0]

    @property
    def cells(self):
        return self.nb.cells

    @functools.cached_property
    def code(self):
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @functools.cached_property
    def own_code(self):
        """The code cells without the guard."""
        return [cell for cell in self.code if cell.id != "guard"]

    @functools.cached_property
    def markdown(self):
        return [cell for cell in self.cells if cell.cell_type == "markdown"]

    @functools.cached_property
    def trees(self):
        """(cell, syntax tree) for every code cell that is plain Python, without the guard."""
        return [(cell, tree) for cell in self.own_code if (tree := parse(cell.source))]

    @functools.cached_property
    def headings(self):
        """(cell, level, text) of every heading, in order."""
        return [
            (cell, len(marks), text.strip())
            for cell in self.markdown
            for marks, text in re.findall(r"^(#{1,6})\s+(.*)$", without_fences(cell.source), re.M)
        ]

    @functools.cached_property
    def sections(self):
        """(title, cells) from each heading of level 2 to the next."""
        sections = []
        for cell in self.cells:
            if cell.cell_type == "markdown":
                titles = re.findall(r"^##\s+(.*)$", without_fences(cell.source), re.M)
                sections += [(title.strip(), []) for title in titles]
            if sections:
                sections[-1][1].append(cell)
        return sections


@functools.cache
def parse(source):
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def rule(check):
    RULES.append(check)
    return check


def without_fences(text):
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", without_fences(text))


def without_math(text):
    """Markdown without code and formulas."""
    return re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", " ", without_code(text), flags=re.S)


def lines(source):
    return [line for line in source.splitlines() if line.strip()]


def printed(cell, html=False):
    """Every text that a cell's outputs show."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        elif output.output_type == "error":
            texts += [output.evalue, *output.traceback]
        else:
            kinds = ("text/plain", "text/html") if html else ("text/plain",)
            texts += ["".join(output.data[kind]) for kind in kinds if kind in output.data]
    return "\n".join(texts)


def images(cell):
    """(MIME type, data) of every image among a cell's outputs."""
    return [
        (kind, data)
        for output in cell.outputs
        for kind, data in output.get("data", {}).items()
        if kind.startswith("image/")
    ]


def called(node):
    """The last name of what a call calls: plt.show() and show() give "show"."""
    return getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""


def imports(tree):
    """(module, names) of every import statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names)


def tags(cell):
    return cell.metadata.get("tags", [])


def asserts(tree):
    return any(isinstance(node, ast.Assert) or called(node).startswith("assert") for node in ast.walk(tree))


def checks(cell):
    """The exercise ids that a cell checks: check("06.2", answer) gives ["06.2"]."""
    return [
        node.args[0].value
        for node in ast.walk(parse(cell.source) or ast.Module([], []))
        if called(node) == "check" and node.args and isinstance(node.args[0], ast.Constant)
    ]


def is_chapter(notebook):
    """Chapters have the whole rhythm. The appendices A1, A2 are pages to look things up in: they may leave out "Builds
    on", "You will", "You have" and the exercises. Exercises that they do have keep the chapters' form."""
    return notebook.number.isdigit()


# The file


@rule
def name(notebook):
    if not NAME.fullmatch(notebook.name):
        return ["file: the name must look like 06_topic"]
    return []


@rule
def nbformat_4_5(notebook):
    if (notebook.nb.nbformat, notebook.nb.nbformat_minor) != (4, 5):
        return [f"file: must be nbformat 4.5, is {notebook.nb.nbformat}.{notebook.nb.nbformat_minor}"]
    try:
        nbformat.validate(notebook.nb)
    except nbformat.ValidationError as error:
        return [f"file: {str(error).splitlines()[0]}"]
    return []


@rule
def ids(notebook):
    """Readable, unique ids: three words at most random front ends do not make."""
    complaints, seen = [], set()
    for cell in notebook.cells:
        cell_id = cell.get("id", "")
        random = re.match(r"[0-9a-f]{8}(-|$)", cell_id)
        if random or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell_id):
            complaints.append(f"{cell_id!r}: ids are readable words joined by hyphens, such as softmax-shift")
        if cell_id in seen:
            complaints.append(f"{cell_id}: two cells have this id")
        seen.add(cell_id)
    return complaints


@rule
def metadata(notebook):
    """Only what the course uses, so that a front end leaves no traces."""
    complaints = []
    if notebook.nb.metadata != METADATA:
        complaints.append("file: metadata must be exactly what `make notebooks` writes")
    for cell in notebook.cells:
        for key, value in cell.metadata.items():
            fine = (
                (key == "tags" and value and set(value) <= TAGS)
                or (key in ("cellView", "jupyter") and value == FOLDED[key])
                or (key == "mystnb" and set(value) == {"image"} and set(value["image"]) == {"alt"})
                or (key == "mystnb" and value == folded(cell.source)["mystnb"])
            )
            if not fine or cell.cell_type != "code":
                complaints.append(f"{cell.id}: metadata {key} = {value} is not allowed")
    return complaints


@rule
def guard(notebook):
    """The first code cell makes `import attnlib` work, and is the same everywhere."""
    first = notebook.code[0] if notebook.code else None
    if first is None or first.id != "guard":
        return ["file: the first code cell must be the guard, with the id guard"]
    complaints = []
    if first.source != GUARD.read_text(encoding="utf-8").rstrip("\n"):
        complaints.append("guard: differs from tests/guard.py; `make notebooks` refreshes it")
    if first.metadata != folded(first.source):
        complaints.append("guard: must be folded; `make notebooks` does it")
    if first.outputs:
        complaints.append("guard: must print nothing")
    return complaints


# Outputs


@rule
def execution_counts(notebook):
    """1..n: without counts nbval compares nothing."""
    counts = [cell.execution_count for cell in notebook.code]
    results = [
        f"{cell.id}: its result is numbered {output.execution_count}"
        for cell in notebook.code
        for output in cell.outputs
        if output.output_type == "execute_result" and output.execution_count != cell.execution_count
    ]
    if counts != list(range(1, len(counts) + 1)):
        results.append(f"file: execution counts must be 1..{len(counts)}, are {counts}")
    return results


@rule
def outputs(notebook):
    """A cell that prints has something stored."""
    return [
        f"{cell.id}: prints, but no output is stored"
        for cell, tree in notebook.trees
        if not cell.outputs
        and any(isinstance(node, ast.Expr) and called(node.value) in ("print", "check") for node in tree.body)
    ]


@rule
def stderr(notebook):
    return [
        f"{cell.id}: wrote to stderr: {output.text.strip()[:80]}"
        for cell in notebook.code
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]


@rule
def errors(notebook):
    """An error is stored where the cell is tagged for it, and only there."""
    complaints = []
    for cell in notebook.code:
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed and "raises-exception" not in tags(cell):
            complaints.append(f"{cell.id}: stores an error without the tag raises-exception")
        if not failed and "raises-exception" in tags(cell):
            complaints.append(f"{cell.id}: is tagged raises-exception but stores no error")
    return complaints


@rule
def widgets(notebook):
    complaints = [
        f"{cell.id}: shows a widget"
        for cell in notebook.code
        for output in cell.outputs
        if any("widget" in kind for kind in output.get("data", {}))
    ]
    for cell, tree in notebook.trees:
        complaints += [f"{cell.id}: imports {module}" for module, _ in imports(tree) if module.split(".")[0] in WIDGETS]
    return complaints


@rule
def digits(notebook):
    """Long decimals and addresses differ on another machine."""
    complaints = []
    for cell in notebook.own_code:
        if "nbval-ignore-output" not in tags(cell) and (found := re.search(r"\d\.\d{7,}", printed(cell))):
            complaints.append(f"{cell.id}: prints {found[0]}; three or four decimals reproduce")
        if found := re.search(r"\b0x[0-9a-f]{6,}", printed(cell)):
            complaints.append(f"{cell.id}: prints the address {found[0]}")
    return complaints


@rule
def local(notebook):
    """No path and no version that exists on one machine only."""
    path = r"(?<![\w./])/(home|root|tmp|Users|work|usr|opt|var|mnt|content)/|\b[A-Z]:\\\w"
    complaints = []
    for cell in notebook.cells:
        text = cell.source if cell.id != "guard" else ""
        text += "\n" + printed(cell, html=True) if cell.cell_type == "code" else ""
        complaints += [f"{cell.id}: names a path of one machine: {found[0]}" for found in re.finditer(path, text)]
        complaints += [
            f"{cell.id}: names a local version: {found[0]}" for found in re.finditer(r"\d+\.\d+\.\d+\+\w+", text)
        ]
    return complaints


@rule
def letters(notebook):
    """Code and what it prints use Latin letters: a translation shares both, and fonts lack others."""
    return [
        f"{cell.id}: has the character {found[0]!r} in its code or its output"
        for cell in notebook.code
        if (found := re.search(r"[^\u0000-\u024f]", cell.source + printed(cell)))
    ]


# Figures


@rule
def figures(notebook):
    """One PNG a cell, small and on white, with a line of facts that nbval compares."""
    complaints = []
    for cell in notebook.code:
        kinds = [kind for kind, _ in images(cell)]
        if set(kinds) - {"image/png"} or len(kinds) > 1:
            complaints.append(f"{cell.id}: at most one image a cell, and only PNG, got {', '.join(kinds)}")
        if kinds and not any(output.output_type == "stream" for output in cell.outputs):
            complaints.append(f"{cell.id}: a figure needs a line of facts: print(attnlib.plots.describe(ax))")
        for data in (data for kind, data in images(cell) if kind == "image/png"):
            png = base64.b64decode(data)
            if len(png) >= 100_000:
                complaints.append(f"{cell.id}: the figure takes {len(png) // 1000} kB, allowed are 100")
            picture = Image.open(io.BytesIO(png))
            right, bottom = picture.width - 1, picture.height - 1
            picture = picture.convert("RGBA")
            corners = {picture.getpixel(xy) for xy in [(0, 0), (right, 0), (0, bottom), (right, bottom)]}
            if corners != {(255, 255, 255, 255)}:
                complaints.append(f"{cell.id}: the background of the figure must be white")
    return complaints


@rule
def alt_text(notebook):
    """Every figure says in words what it shows."""
    complaints = []
    for cell in notebook.code:
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if images(cell) and len(alt.split()) < 4:
            complaints.append(f"{cell.id}: needs mystnb.image.alt, one sentence on what the figure shows")
        if alt and not images(cell):
            complaints.append(f"{cell.id}: has an alt text but no figure")
    return complaints


# Code


@rule
def plain_python(notebook):
    """No magics, no shell: nbval passes their failures, and other front ends have others."""
    complaints = [
        f"{cell.id}: is not plain Python (magics, ! and ? are not allowed)"
        for cell in notebook.code
        if parse(cell.source) is None
    ]
    complaints += [
        f"{cell.id}: calls get_ipython"
        for cell, tree in notebook.trees
        if any(called(node) == "get_ipython" for node in ast.walk(tree))
    ]
    return complaints


@rule
def semicolons(notebook):
    """nbval shows what a trailing ; would hide."""
    return [f"{cell.id}: ends in ;" for cell in notebook.code if cell.source.rstrip().endswith(";")]


@rule
def empty_cells(notebook):
    return [f"{cell.id}: is empty" for cell in notebook.cells if not cell.source.strip()]


@rule
def cell_length(notebook):
    """Code cells have 4 lines or fewer in the median, and never more than 25."""
    lengths = {cell.id: len(lines(cell.source)) for cell in notebook.own_code}
    complaints = [f"{cell}: has {n} lines of code, allowed are 25" for cell, n in lengths.items() if n > 25]
    if lengths and statistics.median(lengths.values()) > 4:
        complaints.append(f"file: the median cell has {statistics.median(lengths.values())} lines, allowed are 4")
    return complaints


@rule
def line_length(notebook):
    """What is wider than the column of the site must be scrolled to be read."""
    return [
        f"{cell.id}: has a line of {len(line)} characters, allowed are 88"
        for cell in notebook.own_code
        for line in lines(cell.source)
        if len(line) > 88
    ]


@rule
def network(notebook):
    """Nothing is fetched, by code or by the page."""
    complaints = []
    for cell, tree in notebook.trees:
        complaints += [f"{cell.id}: imports {module}" for module, _ in imports(tree) if module.split(".")[0] in NETWORK]
        if re.search(r"https?://|torch\.hub", cell.source):
            complaints.append(f"{cell.id}: has an address in its code")
        if re.search(r"(src=|url\(|@import )\s*[\"']?(https?:)?//", printed(cell, html=True)):
            complaints.append(f"{cell.id}: its output loads from another host")
    for cell in notebook.markdown:
        if re.search(r"!\[[^\]]*\]\(\s*<?https?:", cell.source):
            complaints.append(f"{cell.id}: shows an image from another host")
    return complaints


@rule
def progress(notebook):
    """tqdm.auto makes widgets where there are any."""
    return [
        f"{cell.id}: use `from tqdm import tqdm`"
        for cell, tree in notebook.trees
        for module, names in imports(tree)
        if module in ("tqdm.auto", "tqdm.notebook", "tqdm.autonotebook") or (module == "tqdm" and {*names} - {"tqdm"})
    ]


@rule
def timings(notebook):
    """What depends on the clock is not compared."""
    clocks = {"perf_counter", "process_time", "monotonic", "time", "timeit", "perf_counter_ns", "Timer"}
    return [
        f"{cell.id}: prints what depends on the clock: split it off and tag it nbval-ignore-output"
        for cell, tree in notebook.trees
        if cell.outputs
        and "nbval-ignore-output" not in tags(cell)
        and any(called(node) in clocks for node in ast.walk(tree))
    ]


@rule
def prose_in_code(notebook):
    """A translation changes Markdown only, so sentences stand there."""
    complaints = []
    for cell, tree in notebook.trees:
        for call in (node for node in ast.walk(tree) if called(node) in LABELS):
            for node in ast.walk(call):
                text = literal(node)
                if len(re.findall(r"[^\W\d_]{2,}", text)) > 6:
                    complaints.append(f"{cell.id}: prints a sentence: {text[:60]!r}; say it in Markdown")
    return complaints


def literal(node):
    """The text of a string, or of an f-string without its values."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join(part.value for part in parts if isinstance(getattr(part, "value", None), str))


@rule
def assertions(notebook):
    """Each section with code asserts something (in exercises, check does)."""
    complaints = []
    for title, cells in notebook.sections:
        code = [cell for cell in cells if cell.cell_type == "code" and cell.id != "guard"]
        proven = any(asserts(parse(cell.source) or ast.Module([], [])) or checks(cell) for cell in code)
        if code and not proven:
            complaints.append(f"{code[0].id}: the section {title!r} asserts nothing")
    return complaints


@rule
def torch_last(notebook):
    """In chapters that run in a browser, PyTorch comes in under its own heading."""
    if notebook.number not in TORCH_LAST:
        return []
    complaints = []
    start = [title for title, _ in notebook.sections].count("The same in PyTorch")
    if start != 1:
        return [f"file: expected one heading '## The same in PyTorch', got {start}"]
    below = next(cells for title, cells in notebook.sections if title == "The same in PyTorch")
    first = next((cell for cell in below if cell.cell_type == "code"), None)
    if first is None or not re.search(r"^import torch$", first.source, re.M):
        complaints.append(f"{below[0].id}: `import torch` must stand in the first code cell below this heading")
    for cell, tree in notebook.trees:
        if first is not None and cell.id == first.id:
            break
        uses = {module.split(".")[0] for module, _ in imports(tree)} | {
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
        }
        if "torch" in uses:
            complaints.append(f"{cell.id}: uses torch above '## The same in PyTorch'")
    return complaints


# Text


@rule
def headings(notebook):
    """One title, at the top; levels never jump."""
    levels = [level for _, level, _ in notebook.headings]
    complaints = []
    if levels.count(1) != 1 or levels[0] != 1 or notebook.headings[0][0] is not notebook.cells[0]:
        complaints.append(f"file: must begin with its only heading of level 1, has {levels.count(1)}")
    for (_, before, _), (cell, level, text) in zip(notebook.headings, notebook.headings[1:], strict=False):
        if level > before + 1:
            complaints.append(f"{cell.id}: the heading {text!r} jumps from level {before} to {level}")
    return complaints


@rule
def plain_markdown(notebook):
    """What Jupyter, Colab and the site all show: MyST belongs in book/*.md."""
    myst = {
        r"(?<!`)\{[a-zA-Z:_-]+\}`[^`\s]": "a MyST role",
        r"^\s*(```+|~~~+)\s*\{": "a MyST directive",
        r"^\s*:::": "a MyST directive",
        r"^\([\w-]+\)=\s*$": "a MyST label",
        r"^\s*\+\+\+": "a MyST block break",
    }
    other = {
        r"\{\{.*\}\}": "a MyST substitution",
        r"^>\s*\[!\w+\]": "a GitHub callout",
        r"\[\^[^\]]+\]": "a footnote",
        r"\\(new|renew|provide)command|\\def\b|\\DeclareMathOperator": "a macro",
        r"\\(label|eqref|ref)\b": "a reference (write \\tag{} and the number)",
        r"\\begin\{(align|equation|gather|multline|eqnarray)\*?\}": "an environment (use aligned inside $$)",
        r"\\\\?[\[(](?=.*\\\\?[\])])": "\\( or \\[ (use $ or $$)",
        r"\\color\b": "a color",
    }
    complaints = []
    for cell in notebook.markdown:
        text = cell.source
        found = [(re.search(pattern, text, re.M), what) for pattern, what in myst.items()]
        found += [(re.search(pattern, without_code(text), re.M), what) for pattern, what in other.items()]
        complaints += [f"{cell.id}: has {what}: {match[0].strip()!r}" for match, what in found if match]
        complaints += [
            f"{cell.id}: has the HTML tag <{tag}>"
            for tag in re.findall(r"</?([a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])", without_math(text))
            if tag not in {"details", "summary", "br", "sub", "sup", "kbd"}
        ]
    return complaints


@rule
def prose(notebook):
    """10 to 20 words of prose for each line of code."""
    words = sum(
        len(re.findall(r"[^\W\d_][\w'-]*", re.sub(r"\]\([^)]*\)|<[^>]*>", "]", without_math(cell.source))))
        for cell in notebook.markdown
    )
    count = sum(len(lines(cell.source)) for cell in notebook.own_code)
    if count and not 10 <= words / count <= 20:
        return [f"file: {words} words for {count} lines of code are {words / count:.1f} a line, expected 10 to 20"]
    return []


@rule
def table_headers(notebook):
    """A column without a name says nothing to those who hear the page; a formula alone is read to them as nothing."""
    return [
        f"{cell.id}: a table has a column without a header in words: {head.strip()}"
        for cell in notebook.markdown
        for head in re.findall(r"^(\|.*\|)[ ]*\n\|[\s:|-]+\|[ ]*$", cell.source, re.M)
        if not all(re.sub(r"\$[^$]*\$", "", name).strip() for name in head.strip().strip("|").split("|"))
    ]


@rule
def code_in_a_row(notebook):
    """Say before a cell what will appear, and after it what it means."""
    complaints, run = [], 0
    for cell in notebook.cells:
        run = run + 1 if cell.cell_type == "code" and cell.id != "guard" else 0
        if run == 3:
            complaints.append(f"{cell.id}: is the third code cell in a row; say what it is about")
    return complaints


@rule
def opening(notebook):
    """The first cell: a promise, "You will" with three points, minutes on a CPU."""
    if not is_chapter(notebook):
        return []
    before_code = itertools.takewhile(lambda cell: cell.cell_type == "markdown", notebook.cells)
    text = "\n\n".join(cell.source for cell in before_code)
    needed = {
        r"\A# .+\n\n+\w": "begin with a title and a sentence that says what the chapter promises",
        r"\bBuilds on\b": "say what the chapter builds on ('Builds on ...')",
        r"\b(\d+|an?|one|two|three|half a) (seconds?|minutes?)\b[^.\n]*\bCPU\b": "say the minutes on a CPU",
    }
    return [
        f"file: the text above the first code must {what}"
        for pattern, what in needed.items()
        if not re.search(pattern, text)
    ]


@rule
def closing(notebook):
    """ "You have" repeats the three points of "You will"; then comes what is next."""
    if not is_chapter(notebook):
        return []
    will, have = (points(notebook, f"You {verb}") for verb in ("will", "have"))
    complaints = [
        f"file: expected 'You {verb}' with 3 points, got {len(found)}"
        for verb, found in (("will", will), ("have", have))
        if len(found) != 3
    ]
    # Only the first word may change with the tense: "compute the weights", "computed the weights".
    if not complaints and [p.split(" ", 1)[1:] for p in will] != [p.split(" ", 1)[1:] for p in have]:
        complaints.append("file: 'You have' must repeat the points of 'You will' (only their first word may differ)")
    last = "\n".join(cell.source for cell in notebook.markdown[-2:])
    if not re.search(r"^\*\*Next\b", last, re.M):
        complaints.append("file: must end with '**Next.** ...' and the references")
    return complaints


def points(notebook, title):
    """The list below a line that begins with `title`, as bold text or as a heading."""
    for cell in notebook.markdown:
        found = re.search(rf"^(?:#+\s+|\*\*){title}\b.*\n+((?:[-*] .*(?:\n  .*)*\n?)+)", cell.source, re.M)
        if found:
            return [" ".join(point.split()) for point in re.split(r"^[-*] ", found[1], flags=re.M) if point.strip()]
    return []


@rule
def references(notebook):
    """Two to four links to papers, in the last cell."""
    if not is_chapter(notebook):
        return []
    title, cells = notebook.sections[-1] if notebook.sections else ("", [])
    if title != "References":
        return ["file: the last heading of level 2 must be '## References'"]
    links = re.findall(r"https?://[^\s)>]+", "".join(cell.source for cell in cells))
    complaints = [f"references: expected 2 to 4 links, got {len(links)}"] if not 2 <= len(links) <= 4 else []
    return complaints + [
        f"references: {link} is not a paper's lasting address" for link in links if not re.match(PAPERS, link)
    ]


# Exercises


@rule
def exercises(notebook):
    """3 to 5 exercises, each with a stub, a check, a hint and a folded solution that is checked too."""
    chapter, complaints = notebook.number.removeprefix("0"), []
    starts = [i for i, cell in enumerate(notebook.cells) if re.match(r">\s*\*\*Exercise", cell.source)]
    if is_chapter(notebook) and not 3 <= len(starts) <= 5:
        complaints.append(f"file: expected 3 to 5 exercises, got {len(starts)}")
    for count, start in enumerate(starts, 1):
        cell, *rest = notebook.cells[start : start + 5]
        label = f"{chapter}.{count}"
        if not cell.source.startswith(f"> **Exercise {label}.** "):
            complaints.append(f"{cell.id}: must begin '> **Exercise {label}.** '")
        if [c.cell_type for c in rest] != ["code", "code", "markdown", "code"]:
            complaints.append(f"{cell.id}: must be followed by a stub, a check, a hint and a solution")
            continue
        complaints += exercise(label, f"{notebook.number}.{count}", *rest)
    return complaints


def exercise(label, key, stub, check, hint, solution):
    """The complaints about the four cells that follow exercise `label`, whose check is called `key`."""
    complaints = []
    if checks(stub):
        complaints.append(f"{stub.id}: the stub must not check itself")
    if checks(check) != [key] or len(lines(check.source)) != 1:
        complaints.append(f"{check.id}: must be one line, check({key!r}, ...)")
    if not re.match(r"<details>\s*<summary>.+</summary>.+</details>\s*$", hint.source, re.S):
        complaints.append(f"{hint.id}: a hint is <details><summary>Hint</summary> ... </details>")
    if solution.metadata != folded(solution.source, tags=["hide-input", "solution"]):
        complaints.append(f"{solution.id}: must be folded and tagged hide-input, solution")
    if solution.source.splitlines()[0] != f"#@title Solution {label}":
        complaints.append(f"{solution.id}: must begin '#@title Solution {label}'")
    if checks(solution) != [key]:
        complaints.append(f"{solution.id}: must call check({key!r}, ...) too")
    if not names(stub) & names(solution):
        complaints.append(f"{solution.id}: must define again what the stub defines: {', '.join(sorted(names(stub)))}")
    if "not yet" in printed(solution).lower():
        complaints.append(f"{solution.id}: the solution does not pass its own check")
    return complaints


def names(cell):
    """The names that a cell binds at its top level."""
    found = set()
    for node in (parse(cell.source) or ast.Module([], [])).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        found |= {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
    return found
