"""The Sphinx extension for quizzes: the directive `question`, radio buttons that answer with a reason for each option.

    :::{question}
    The question in one paragraph; more blocks, such as code, may follow.

    - [ ] A wrong option

      Why it is wrong.
    - [x] The right option

      Why it is right.
    :::

Everything but the score works without JavaScript: the style sheet shows the reason of the option that is chosen.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

OPTIONS = 4
VERDICTS = {True: "✓ Right.", False: "✗ Wrong."}


class quiz_question(nodes.container):
    """A legend, any other blocks, and the options."""


class quiz_legend(nodes.paragraph):
    """What is asked, in one paragraph."""


class quiz_option(nodes.container):
    """A label and the blocks of its reason."""


class quiz_label(nodes.paragraph):
    """What one may choose."""


class quiz_score(nodes.container):
    """Stands after the last question of a page."""


class Question(SphinxDirective):
    """One question; its body is Markdown."""

    has_content = True

    def run(self):
        asked, *blocks = self.parse_content_to_nodes() or [None]
        if not isinstance(asked, nodes.paragraph):
            raise self.error("a question must begin with a paragraph that asks something")
        self.named = f"the question {asked.astext()[:60]!r}"
        listed = list(blocks.pop().children) if blocks and isinstance(blocks[-1], nodes.bullet_list) else []
        self.demand(len(listed) == OPTIONS, f"must end with a list of {OPTIONS} options, got {len(listed)}")
        options = [self.read_option(item) for item in listed]
        right = sum(one["right"] for one in options)
        self.demand(right == 1, f"must have one right option, marked [x], got {right}")
        node = quiz_question("", quiz_legend("", "", *asked.children), *blocks, *options)
        self.set_source_info(node)
        return [node]

    def read_option(self, item):
        """From an item of the list, whose box the reader of Markdown has turned into HTML, the node of an option."""
        text, *reason = item.children or [None]
        box = text.children[0] if isinstance(text, nodes.paragraph) and text.children else None
        self.demand(isinstance(box, nodes.raw), f"must mark each option with [ ] or [x], got {item.astext()[:60]!r}")
        right = "checked" in box.astext()
        text.remove(box)
        explained = reason and isinstance(reason[0], nodes.paragraph)
        self.demand(explained, f"must give a reason in a paragraph below the option {text.astext().strip()[:60]!r}")
        reason[0].insert(0, [nodes.strong("", VERDICTS[right]), nodes.Text(" ")])
        return quiz_option("", quiz_label("", "", *text.children), *reason, right=right)

    def demand(self, condition, otherwise):
        if not condition:
            raise self.error(f"{self.named} {otherwise}")


def number(app, doctree):
    """Count the questions of a page, and keep a place for the score after the last one."""
    questions = list(doctree.findall(quiz_question))
    for n, node in enumerate(questions, 1):
        node["name"], node["heading"] = f"question-{n}", f"Question {n} of {len(questions)}."
        for i, one in enumerate(node.findall(quiz_option)):
            one["group"], one["id"] = node["name"], f"{node['name']}-{'abcd'[i]}"
    if questions:
        last = questions[-1]
        last.parent.insert(last.parent.index(last) + 1, quiz_score())


def add_files(app, pagename, templatename, context, doctree):
    """Load style and script on the pages that have a quiz."""
    if doctree is not None and next(doctree.findall(quiz_question), None) is not None:
        app.add_css_file("quiz.css")
        app.add_js_file("quiz.js", loading_method="defer")


def visit_question(self, node):
    self.body.append(f'<fieldset class="quiz" id="{node["name"]}">\n')


def depart_question(self, node):
    self.body.append("</fieldset>\n")


def visit_legend(self, node):
    self.body.append(f"<legend><strong>{node.parent['heading']}</strong> ")


def depart_legend(self, node):
    self.body.append("</legend>\n")


def visit_option(self, node):
    self.body.append('<div class="option">\n')


def depart_option(self, node):
    self.body.append("</div></div>\n</div>\n")


def visit_label(self, node):
    one = node.parent
    right = ' data-right=""' if one["right"] else ""
    self.body.append(f'<input type="radio" id="{one["id"]}" name="{one["group"]}"{right} autocomplete="off">\n')
    self.body.append(f'<label for="{one["id"]}">')


def depart_label(self, node):
    # A screen reader reads out what appears in a status, so that box is always there and the reason appears in it.
    self.body.append('</label>\n<div role="status"><div class="reason">\n')


def visit_score(self, node):
    self.body.append('<p class="quiz-score" role="status">')


def depart_score(self, node):
    self.body.append("</p>\n")


def setup(app):
    app.add_directive("question", Question)
    app.add_node(quiz_question, html=(visit_question, depart_question))
    app.add_node(quiz_legend, html=(visit_legend, depart_legend))
    app.add_node(quiz_option, html=(visit_option, depart_option))
    app.add_node(quiz_label, html=(visit_label, depart_label))
    app.add_node(quiz_score, html=(visit_score, depart_score))
    app.connect("doctree-read", number)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
