"""The site: Sphinx with MyST and numpydoc; `deploy/docs/make` builds it."""

import html
import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))
from equations import NO_EQUATION

pyproject = Path(__file__).parents[2] / "pyproject.toml"
project, version = "Geosweep", tomllib.loads(pyproject.read_text())["project"]["version"]
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
html_theme = "furo"
html_title = "Geosweep"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_math_renderer = "mathml"

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
smartquotes = False  # which make a dash of --option
toc_object_entries_show_parents = "hide"
suppress_warnings = ["misc.highlighting_failure"]
default_role = "code"
autodoc_typehints = "none"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


KEPT = re.compile(rf"({NO_EQUATION}|^\s*(?:>>>|\.\.\.).*$)", re.MULTILINE)  # and what is typed


def _mathml(equation, as_block):
    """MathML, or the LaTeX and a warning."""
    try:
        return tex2mathml(equation, as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in the equation %s", error, equation)
        return html.escape(equation)


def _inline(writer, node):
    no_break = "\u2060"  # before a full stop
    writer.body.append(_mathml(node.astext(), False) + no_break)
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{_mathml(node.astext(), True)}</div>')
    raise nodes.SkipNode


def _escape(app, what, name, obj, options, lines):
    """Leave equations in docstrings alone, whose bars and stars reST takes for markup."""
    parts = KEPT.split("\n".join(lines))
    parts[::2] = [re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def setup(app):
    """Render equations as MathML, without a script and without a network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _escape, priority=100)
