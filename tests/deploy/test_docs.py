"""The source of the guide as a site: everything has its page, every page is found, links lead on.

`deploy/docs/make` builds it of this source; nothing here needs Sphinx.
"""

import posixpath
import re
import sys
from pathlib import Path

import entry_point
import pytest

import integrators
import sweep
import systems
from sweep.guide import TOPICS, text
from sweep.papers import FIGURES

DOCS = Path(__file__).parents[2] / "deploy" / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
VERT, BARS, LIMIT = r"\left\Vert", r"\left\vert y\right\vert ", r"\ \text{limit}\ "
TOCTREE = re.compile(r"^```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pages():
    """The modules `pages` and `equations` of the site, as they import one another."""
    sys.path.insert(0, str(DOCS))
    yield __import__("pages")
    sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def sources(pages):
    return pages.sources()


def _listed(sources):
    """The pages that lists of contents name, once for each time."""
    return [
        posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        for path, page in sources.items()
        for names in TOCTREE.findall(page)
        for name in names.split()
    ]


def test_every_page_is_in_one_list_of_contents(sources):
    pages = {path.rpartition(".")[0] for path in sources if path.endswith((".md", ".rst"))}
    listed = [name.removesuffix(".md") for name in _listed(sources)]
    assert sorted(listed) == sorted(pages - {"index"})


def test_every_topic_system_integrator_and_command_has_its_page(sources):
    assert {f"guide/{topic}.md" for topic in TOPICS} < sources.keys()
    commands = re.findall(r"^  (\w+)  +[A-Z]", entry_point.answer("--help"), re.M)
    assert len(commands) >= 25
    assert {f"command-line/{command}.md" for command in commands} < sources.keys()
    for system in systems.ALL_SYSTEMS:
        page = sources[f"systems/{system.name}.md"]
        assert all(f"| `{name}` |" in page for name in system.parameter_names())
        assert all(f"- `{start.name}`: " in page for start in system.named_starts)
    families = "".join(page for path, page in sources.items() if path.startswith("integrators/"))
    for method in integrators.ALL_INTEGRATORS:
        assert f"(method-{method.name})=\n## `{method.name}`" in families


def test_every_parameter_of_a_system_has_a_meaning(sources):
    for system in systems.ALL_SYSTEMS:
        assert not re.findall(r"^\| `\w+` \|.*\|  \|$", sources[f"systems/{system.name}.md"], re.M)


def test_the_page_of_a_package_has_what_is_public(sources):
    page = sources["python/sweep.rst"]
    for name in ("Study", "Store", "run", "drift_table", "open_study"):
        assert name in sweep.__all__ and re.search(rf"^\.\. auto\w+:: {name}$", page, re.MULTILINE)


def test_links_between_pages_lead_to_one(sources):
    labels = {
        label for page in sources.values() for label in re.findall(r"^\((\S+)\)=$", page, re.M)
    }
    labels |= {form.__name__ for method in integrators.ALL_INTEGRATORS for form in method.forms}
    links = [(path, link) for path, page in sources.items() for link in LINK.findall(page)]
    assert len(links) > 500
    for path, link in links:
        if link.startswith("#"):
            assert link[1:] in labels, (path, link)
        elif "://" not in link:
            folder = "" if link.startswith("/") else posixpath.dirname(path)
            target = posixpath.normpath(posixpath.join(folder, link.lstrip("/")))
            assert target.partition("#")[0] in sources, (path, link)


def test_code_that_names_something_is_linked_once(pages):
    assert pages.linked("as `rk4+projected`, `sweep\nguide drift`, [`rk4`](x.md) and `h`") == (
        "as [`rk4+projected`](#method-rk4), [`sweep\nguide drift`](/guide/drift.md), "
        "[`rk4`](x.md) and `h`"
    )
    assert pages.linked("# `rk4`\n\n```sh\n`rk4`\n```\n") == "# `rk4`\n\n```sh\n`rk4`\n```\n"


def test_contributing_says_how_the_site_is_built():
    assert "deploy/docs/make build/site" in text("contributing")


# --- equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("ẇ_i = w_i × ∇H", r"{\dot{w}{}}_{i} = w_{i} \times  \nabla H"),
        ("M_ij q̇_j", r"M_{ij} {\dot{q}{}}_{j}"),
        ("½ |q|² e3·q", r"\frac{1}{2} \left\vert q\right\vert ^{2} e_{3}\cdot q"),
        ("Σ_{j≠i} κ_j", r"\sum _{j\ne i} \kappa _{j}"),
        ("Q⁻¹Γ₀ + R_iΩ_i", r"Q^{-1}\Gamma _{0} + R_{i}\Omega _{i}"),
        ("√(1−c²)", r"\sqrt{1-c^{2}}"),
        ("dexp⁻¹_σ(v)", r"\operatorname{dexp}^{-1}_{\sigma }(v)"),
        ("x for i < j", r"x \ \text{for}\  i < j"),
        ("4e-4 ε", r"4\cdot 10^{-4} \varepsilon"),
    ],
)
def test_an_equation_as_latex(pages, text, made):
    assert pages.markdown("    " + text) == f"```{{math}}\n{made}\n```"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a spin that turns about a at a rate", "a spin that turns about a at a rate"),
        ("the load m and w_0.", "the load {math}`m` and {math}`w_{0}`."),
        ("states (q, ω), starts", r"states {math}`(q, \omega )`, starts"),
        (
            "‖f/max(|y|, limit)‖∞, at",
            rf"{{math}}`{VERT} f/\max ({BARS}, {LIMIT})\right\Vert _{{\infty}}`, at",
        ),
        ("H = a·w and so on", r"{math}`H = a\cdot w` and so on"),
        ("E. Hairer, C. Lubich, *On R³*, ``a_b``", "E. Hairer, C. Lubich, *On R³*, `a_b`"),
        ("Units: kg, m, s. With h", "Units: kg, m, s. With {math}`h`"),
        ("no drift |seen|*", r"no drift \|seen\|\*"),
    ],
)
def test_equations_within_a_sentence(pages, text, made):
    assert pages.markdown(text) == made


def test_pictures_of_the_papers_stand_in_their_sections(pages):
    drawn = {f"{paper}-{name}.png" for paper, of in FIGURES.items() for name in of}
    page = pages.with_pictures(text("papers"), drawn)
    sections = dict(zip(sweep.papers.PAPERS, re.split("^## ", page, flags=re.M)[1:], strict=True))
    for paper, section in sections.items():
        found = re.findall(r"!\[[^]]+\]\(pictures/([^)]+)\)", section)
        assert found == [f"{paper}-{name}.png" for name in FIGURES[paper]]
    assert pages.with_pictures(text("papers"), ["lee-figure-9.png"]) == text("papers")
