"""The report: what it holds, also of stores with gaps; how it looks in a browser and in print."""

import base64
import html
import io
import json
import re
import shutil
from html.parser import HTMLParser

import browser
import numpy as np
import pytest
import zarr

import sweep
from integrators.errors import InputError

ODD = 'rk4 <b>&"ü$h$'
STUDY = f"""\
format = 1
name = "odd"
description = "Gaps & odd names: <em>not</em> HTML, {{{{ nor }}}} a template"

[[experiment]]
name = "order"
system = "spherical_pendulum_chain"
integrators = ["variational", {{ name = "rk4", label = '{ODD}' }}, "variational+suzuki4", "rk45"]
step_size = [0.1, 0.05, 0.025, 0.02, 0.0125]
tolerance = [1e-4, 1e-8]
initial_condition = ["lee", {{ around = "lee", random = 2, spread = 1e-3, seed = 1 }}]
duration = 2.0
samples = 20
record = ["energy"]
reference = {{ integrator = "dop853" }}

[[experiment]]
name = "fails"
system = "free_rigid_body"
integrators = "spherical_midpoint"
step_size = [0.1, 25.0]
initial_condition = "figure3"
duration = 100.0
samples = 2
record = ["energy"]

[[experiment]]
name = "adaptive"
system = "spherical_pendulum_chain"
integrators = "rk45"
tolerance = [1e-4, 1e-6]
initial_condition = "lee"
duration = 1.0
samples = 10
record = ["energy"]

[[experiment]]
name = "states"
system = "free_rigid_body"
integrators = "spherical_midpoint"
step_size = 0.1
initial_condition = {{ lattice = 40 }}
duration = 60.0
samples = 600
record = ["state"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("report")
    (path / "odd.toml").write_text(STUDY)
    command(path, "run", "odd.toml", "--workers", "1", "--no-summary", code=3)
    done = command(path, "report", "odd.zarr", "--json")
    assert json.loads(done.stdout) == {"report": "odd-report.html"}
    return path


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "odd-report.html").read_text()


def words(page):
    """What is read of a page, with single spaces."""
    text = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.S)
    text = re.sub(r"</?(wbr|a|code|span)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


class Balanced(HTMLParser):
    """Checks that elements are closed in turn, and gathers them with their attributes."""

    VOID = ("meta", "img", "br", "wbr", "link", "hr")

    def __init__(self, page):
        super().__init__()
        self.stack, self.elements = [], []
        self.feed(page)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


# --- what it is ------------------------------------------------------------------------------


def test_it_is_one_sound_file_that_refers_to_nothing_else(page):
    found = Balanced(page).elements
    tags = [tag for tag, _ in found]
    assert not {"script", "link", "iframe", "object"} & set(tags)
    assert "http:" not in page and "https:" not in page and "@import" not in page
    names = [given["id"] for _, given in found if "id" in given]
    assert len(names) == len(set(names))
    for tag, given in found:
        for key in ("href", "src", "clip-path"):
            value = (given.get(key) or "").removeprefix("url(").removesuffix(")")
            assert not value or value.startswith("data:") or value[1:] in names, (tag, given)
    assert tags.count("h1") == 1 and tags.count("main") == 1


def test_integrators_are_counted(page):
    found = re.findall(r"Integrators \((\d+)\)</\w+>\s*<\w+>([^<]*)<", page)
    assert found and all(int(count) == len(names.split(", ")) for count, names in found)


def test_pictures_and_tables_are_named(page):
    found = Balanced(page).elements
    pictures = [given for tag, given in found if tag in ("svg", "img")]
    assert len(pictures) == 9  # an order, two of work and of drift, three of energy, a sphere
    assert all(given.get("aria-label") or given.get("alt") for given in pictures)
    assert all(given.get("role") == "img" for given in pictures if "alt" not in given)
    (large,) = (given for given in pictures if "alt" in given)  # of 24,000 points
    assert base64.b64decode(large["src"].partition("base64,")[2]).startswith(b"\x89PNG")
    heads = [given for tag, given in found if tag == "th"]
    assert heads and all(given.get("scope") in ("row", "col") for given in heads)


def test_odd_names_are_text(page):
    assert ODD in words(page)
    assert "<em>not</em> HTML, {{ nor }} a template" in words(page)
    assert "<b>" not in page and "<em>" not in page
    assert html.escape(ODD, quote=False) in re.search(r"<svg.*?</svg>", page, re.S)[0]


# --- what it says ----------------------------------------------------------------------------


def test_the_answers_come_first(page):
    header, _, summary = words(page).partition("Contents")
    summary = summary.partition("An order is the slope")[0]
    assert "95 of 95 runs are computed; 1 of them failed." in header
    said = f"variational, {ODD} and variational+suzuki4 have their declared order."
    assert said in header and said in summary
    assert "fails: free rigid body" in summary and "1 of 2 runs failed." in summary
    assert "Energy: " in header and "Energy over 1 s: " in summary  # runs of two lengths
    assert words(page).count("Drifts are not shown for a study of order. To see them") == 1


def test_tables_are_those_of_the_commands(folder, page, command):
    text = words(page)
    answer = command(folder, "order", "odd.zarr", "-e", "order").stdout
    lines = [" ".join(line.split()) for line in answer.splitlines()[1:] if "──" not in line]
    assert len(lines) > 8 and all(line in text for line in lines)


def test_the_study_stands_in_it_as_it_was_written(page):
    written = html.unescape(re.search(r"<pre>(.*?)</pre>", page, re.S)[1])
    assert written == STUDY.rstrip()
    assert "Duration 2 s, 20 sample intervals" in words(page)


def test_failures_and_provenance(page):
    text = words(page).partition("Failures and unfinished runs")[2]
    assert "the one run with status not_converged has step_size = 25" in text
    assert f"geosweep {sweep.versions()['geosweep']}, " in text and "numba " in text
    assert "2 workers" in text and "sweep run odd.zarr" in text


def test_what_is_missing_is_said_with_what_to_add(page):
    parts = dict(zip(("order", "fails", "adaptive", "states"), _experiments(page), strict=True))
    for name in ("fails", "adaptive"):
        assert 'reference = { integrator = "dop853" }' in parts[name]
    assert 'as in record = ["energy", "momentum"]' in parts["states"]
    assert "unit-length no 'unit_length_error' is stored" in parts["fails"]
    assert "Size of the energy error over time." in parts["adaptive"]
    assert "seen from both sides. free rigid body, as a spin: " in parts["states"]


def _experiments(page):
    sections = page.split('<section class="experiment"')[1:]
    return [words("<section" + section) for section in sections]


def copy_with_pending_runs(folder, place, rows, *names):
    """A copy of the store in which some runs are as if they were not computed so far."""
    shutil.copytree(folder / "odd.zarr", place / "odd.zarr")
    for name in names:
        group = zarr.open_group(place / "odd.zarr")[name]
        group["sample_count"][rows], group["status"][rows] = 0, -1
    return place / "odd.zarr"


def test_a_report_of_some_runs_of_which_one_is_not_computed(folder, tmp_path):
    store = copy_with_pending_runs(folder, tmp_path, slice(0, 1), "order")
    where = "integrator == 'variational' and step_size < 1"
    page = sweep.report(store, tmp_path / "new" / "it.html", where).read_text()
    text = words(page)
    assert f"cover the runs for which {where} holds" in text and len(_experiments(page)) == 1
    assert "94 of 95 runs are computed" in text  # of the whole store
    assert "order: 1 of 51 runs are not computed; sweep run odd.zarr goes on with them" in text
    left_out = (
        "Left out, as failed, unfinished, without an error or no longer in the study: 1 runs."
    )
    assert left_out in text
    with pytest.raises(InputError, match="no run is selected by steps < 0"):
        sweep.report(store, tmp_path / "none.html", "steps < 0")


def test_a_store_of_which_nothing_is_computed(folder, tmp_path):
    names = ("order", "fails", "adaptive", "states")
    store = copy_with_pending_runs(folder, tmp_path, slice(None), *names)
    text = words(sweep.report(store, tmp_path / "it.html").read_text())
    assert "0 of 95 runs are computed; none failed." in text
    assert f"{ODD} and variational+suzuki4 are undecided (no run is complete)." in text
    assert "No run failed." in text
    assert "none of the selected runs has any results yet" in text


def test_bad_input_is_refused_with_a_reason(folder, tmp_path, command):
    with pytest.raises(InputError, match="is not a store"):
        sweep.report(tmp_path / "no.zarr")
    with pytest.raises(InputError, match="is a directory; give a file"):
        sweep.report(folder / "odd.zarr", tmp_path)
    (tmp_path / "file").touch()
    to, few = tmp_path / "file" / "it.html", "step_size > 9"
    done = command(folder, "report", "odd.zarr", "--where", few, "-o", to, code=2)
    assert "cannot be written" in done.stderr


# --- how it looks ----------------------------------------------------------------------------

WIDTH = 400
A4, LETTER = (8.27, 11.69), (8.5, 11.0)

# The smallest type, in CSS pixels, of what a selector finds; of pictures as they are scaled.
SMALLEST = """Math.min(...[...document.querySelectorAll('%s')].filter(e => e.checkVisibility())
    .map(e => parseFloat(getComputedStyle(e).fontSize)))"""
IN_PICTURES = """Math.min(...[...document.querySelectorAll('svg text')].map(e =>
    parseFloat(getComputedStyle(e).fontSize) * Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b)
))"""
# What sticks out of the page, and what is cut off by a box that scrolls or hides.
OUTSIDE = """[...document.querySelectorAll('body *:not(svg *)')].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1) && !e.closest('.scroll *');
}).map(e => e.outerHTML.slice(0, 80))"""
CLIPPED = """[...document.querySelectorAll('body *:not(svg *)')].filter(e =>
    e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
# Pictures whose text leaves them.
CUT_TEXT = """[...document.querySelectorAll('svg text')].filter(e => {
    const text = e.getBoundingClientRect(), box = e.ownerSVGElement.getBoundingClientRect();
    return text.left < box.left - 2 || text.right > box.right + 2;
}).map(e => e.textContent)"""


def test_contents_lead_to_every_section(page):
    contents = re.search(r"<nav.*?</nav>", page, re.S)[0]
    leads = re.findall(r'href="#([^"]+)"', contents)
    heads = re.findall(r'<h[23] id="([^"]+)"', page)
    assert sorted(leads) == sorted(heads) and len(leads) > 12


NEEDS_BROWSER = pytest.mark.skipif(
    not browser.found(), reason="no Chromium: apt-get install chromium"
)
# The darkest and the lightest of what the page has behind and in its text.
COLOURS = """['background-color', 'color'].map(name =>
    getComputedStyle(document.body).getPropertyValue(name).match(/\\d+/g).map(Number)[0])"""
VERDICT = """getComputedStyle(document.querySelector('th[data-verdict]'), '::after').content"""
PICTURE = """(box => [box.width, box.height])(
    document.querySelector('.picture svg, .picture img').getBoundingClientRect())"""


@pytest.mark.slow
@NEEDS_BROWSER
def test_a_telephone_shows_verdicts_with_names_and_a_desktop_uses_its_width(folder):
    with browser.Browser(browser.found()) as window:
        window.open(folder / "odd-report.html", 390)
        assert window.ask(VERDICT) == '"confirmed"'
        assert not window.ask("document.querySelector('td.verdict').checkVisibility()")
        window.resize(1400)
        assert window.ask(VERDICT) == "none"
        assert window.ask("document.querySelector('td.verdict').checkVisibility()")
        left, width = "getBoundingClientRect().left", "getBoundingClientRect().width"
        assert window.ask(f"document.querySelector('main').{left}") > 200  # contents beside it
        assert window.ask(f"document.querySelector('main').{width}") > 1000
        window.ask("window.scrollTo(0, 3000), 0")
        top = "document.querySelector('.contents summary').getBoundingClientRect().top"
        assert 0 <= window.ask(top) < 100  # they stay


@pytest.mark.slow
@NEEDS_BROWSER
def test_a_picture_fills_the_window_when_it_is_clicked(folder):
    with browser.Browser(browser.found()) as window:
        window.open(folder / "odd-report.html", 1400)
        small = window.ask(PICTURE)
        for expected in (True, False):
            window.ask("document.querySelector('.picture summary').click()")
            assert (window.ask(PICTURE)[0] > 1.5 * small[0]) is expected
        assert window.ask(PICTURE) == small


@pytest.mark.slow
@NEEDS_BROWSER
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark_and_is_printed_dark_on_white(folder, scheme):
    with browser.Browser(browser.found()) as window:
        scheme_of_window = [{"name": "prefers-color-scheme", "value": scheme}]
        window("Emulation.setEmulatedMedia", features=scheme_of_window)
        window.open(folder / "odd-report.html", 1400)
        paper, ink = window.ask(COLOURS)
        assert (paper < ink) is (scheme == "dark") and abs(paper - ink) > 180
        window("Emulation.setEmulatedMedia", media="print", features=scheme_of_window)
        paper, ink = window.ask(COLOURS)
        assert paper == 255 and ink < 60


@NEEDS_BROWSER
def test_it_reads_well_in_a_narrow_window_and_in_print(folder):
    with browser.Browser(browser.found()) as window:
        window.open(folder / "odd-report.html", WIDTH)
        asked = [url for url in window.requested() if not url.startswith("data:")]
        assert asked == [(folder / "odd-report.html").as_uri()]
        assert window.complaints() == []
        assert window.ask("document.documentElement.scrollWidth") <= WIDTH
        assert window.ask(OUTSIDE) == [] and window.ask(CUT_TEXT) == []
        assert window.ask(SMALLEST % "p, li, dd, figcaption, caption, summary, pre") >= 14
        assert window.ask(SMALLEST % "th, td") >= 12
        assert window.ask(IN_PICTURES) >= 9
        assert _shades(window.screenshot(whole=False)) > 20
        # A table that is wider scrolls in its own place, and its first column stays.
        moved = "(e => { e.scrollLeft = 60; return e.querySelector('tbody th')"
        moved += ".getBoundingClientRect().left - e.getBoundingClientRect().left })"
        assert abs(window.ask(f"{moved}(document.querySelector('.scroll'))")) < 1

        window("Emulation.setEmulatedMedia", media="print")
        for paper in (A4, LETTER):
            window.resize(round(96 * paper[0] - 2 * 14 / 25.4 * 96))
            assert window.ask(OUTSIDE) == [] and window.ask(CLIPPED) == []
            assert window.ask("document.querySelector('pre').checkVisibility()")  # unfolded
            printed = window.pdf(*paper)
            pages = len(re.findall(rb"/Type\s*/Page\b", printed))
            assert 3 <= pages <= 18 and len(printed) > 10_000 * pages
        tallest = window.ask("Math.max(...[...document.querySelectorAll('figure')]"
                             ".map(e => e.getBoundingClientRect().height))")  # fmt: skip
        assert tallest < 96 * (11.0 - 34 / 25.4)  # it fits one page


def _shades(png):
    """How many colours a picture has."""
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(png))
    return len(np.unique((255 * pixels[..., :3]).astype(int).reshape(-1, 3), axis=0))
