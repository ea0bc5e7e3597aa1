"""Certificates: every cell says what the commands say, every address leads somewhere."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import sweep
from integrators.errors import InputError

pytestmark = pytest.mark.slow

LABEL = 'rk4 <b>&"$h$/..'  # as a user may call it
ORDERS = f"""\
format = 1
name = "orders"

[[experiment]]
name = "spin"
system = "free_rigid_body"
integrators = [
    "spherical_midpoint", "rk2_midpoint", "rk45", {{ name = "rk4", step_size = [0.05, 0.025] }},
    {{ name = "rk4", label = '{LABEL}', step_size = 0.1 }},
    {{ name = "rk4", arithmetic = "double-double", step_size = 0.05 }},
]
step_size = [0.2, 0.05, 0.04, 0.025]
tolerance = [1e-4, 1e-8]
initial_condition = {{ random = 3, seed = 1 }}
duration = 8.0
samples = 4
record = ["energy"]
reference = {{ integrator = "dop853" }}
"""
LONG = """\
format = 1
name = "long"

[[experiment]]
name = "defects"
system = "free_rigid_body"
integrators = ["spherical_midpoint", "rk2_midpoint"]
step_size = 0.2
initial_condition = { random = 4, seed = 2 }
duration = 400.0
samples = 40
record = ["energy", "unit_length", "symplectic_defect", "reversal_error"]
"""
MIDPOINT = "free_rigid_body/spherical_midpoint.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("site")
    (path / "orders.toml").write_text(ORDERS)
    (path / "long.toml").write_text(LONG)
    command(path, "run", "orders.toml", "--workers", "1", "--no-summary")
    said = command(path, "report", "--site", "site", "orders.zarr", "long.toml", "--workers", "1")
    assert said.stdout == "site/index.html\n"
    assert "8 new runs" in said.stderr  # a study is run first
    return path


@pytest.fixture(scope="module")
def cells(folder):
    rows = json.loads((folder / "site" / "certificates.json").read_text())["certificates"]
    return {(row["integrator"], row["system"]): row for row in rows}


class Addresses(HTMLParser):
    """Addresses that a page refers to, and those of its own parts."""

    def __init__(self, page):
        super().__init__()
        self.leads, self.parts = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.leads += [given["href"]] if "href" in given else []
        self.parts |= {given["id"]} if "id" in given else set()


def test_a_certificate_stands_for_each_integrator_on_each_system(cells):
    assert {integrator for integrator, _ in cells} == {
        "spherical_midpoint", "rk4", LABEL, "rk45", "rk2_midpoint"
    }  # fmt: skip  # the arithmetic makes no other integrator
    assert cells["rk4", "free_rigid_body"]["experiments"] == ["orders, spin"] * 2
    both = ["orders, spin", "long, defects"]
    assert cells["spherical_midpoint", "free_rigid_body"]["experiments"] == both


def test_cells_are_the_answers_of_the_analysis(folder, cells):
    spin = sweep.open_study(folder / "orders.zarr")["spin"].to_dataset()
    long = sweep.open_study(folder / "long.zarr")["defects"].to_dataset()
    found = cells["spherical_midpoint", "free_rigid_body"]["cells"]
    order = next(r for r in sweep.order_table(spin) if r.integrator == "spherical_midpoint")
    assert found["order"]["text"] == f"{order.order:.2f}"
    assert found["order"]["verdict"] == order.verdict == "confirmed"
    assert f"{order.low:.3f} to {order.high:.3f}" in found["order"]["meaning"]
    drifts = [r for r in sweep.drift_table(long) if r.integrator == "rk2_midpoint"]
    for measure, quantity in (("energy drift", "energy"), ("other drift", "unit_length")):
        row = next(row for row in drifts if row.quantity == quantity)
        cell = cells["rk2_midpoint", "free_rigid_body"]["cells"][measure]
        assert cell["verdict"] == row.verdict == "linear" and "over t = 400" in cell["meaning"]
        assert f"|drift| at most {max(abs(row.low), abs(row.high)):.2g} " in cell["meaning"]
    defects = {row.integrator: row for row in sweep.structure_table(long)}
    for integrator, row in defects.items():
        mine = cells[integrator, "free_rigid_body"]["cells"]
        assert mine["symplectic defect"]["text"] == f"{row.defect.high:.1e}"
        assert mine["symplectic defect"]["verdict"] == row.verdict
        assert mine["reversal error"]["text"] == f"{row.reversal.high:.1e}"
    assert defects["spherical_midpoint"].verdict != defects["rk2_midpoint"].verdict
    error = min(
        (r for r in sweep.tolerance_table(spin) if r.integrator == "rk45"),
        key=lambda r: r.tolerance,
    )
    assert cells["rk45", "free_rigid_body"]["cells"]["order"]["text"] == f"{error.value:.1e}"


def test_work_is_compared_with_the_cheapest_of_the_experiment(cells):
    said = {
        name: row["cells"]["work"] for (name, _), row in cells.items() if "work" in row["cells"]
    }
    assert len([cell for cell in said.values() if cell["text"] == "1.00"]) == 1
    for cell in said.values():
        pattern = r"([\d,]+) evaluations.* measured: .*?, ([\d,]+);"
        mine, least = re.search(pattern, cell["meaning"]).groups()
        ratio = float(mine.replace(",", "")) / float(least.replace(",", ""))
        assert float(cell["text"].removeprefix("≤ ")) == pytest.approx(ratio, abs=0.01)
    # An integrator whose error is smaller at its coarsest step may need less than is known.
    bounded = {name for name, cell in said.items() if cell["text"].startswith("≤")}
    assert bounded == {"rk4", "rk45", LABEL}
    assert said[LABEL]["meaning"].startswith("at most ")
    assert all("more may need fewer" in cell["meaning"] for cell in said.values())


def test_every_address_leads_to_a_page_and_a_part_of_it(folder):
    site = folder / "site"
    pages = {page: Addresses(page.read_text()) for page in site.rglob("*.html")}
    assert len(pages) == 1 + 2 + 5
    for page, found in pages.items():
        for address in found.leads:
            assert "://" not in address
            file, _, part = address.partition("#")
            target = (page.parent / unquote(file)).resolve() if file else page
            assert target.is_file() and site in target.parents
            assert not part or part in pages[target].parts


def test_a_certificate_shows_the_runs_and_the_study(folder):
    page = (folder / "site" / MIDPOINT).read_text()
    runs = sweep.open_study(folder / "long.zarr")["defects"].to_dataset()
    mine = runs["run_id"].values[runs["integrator"].values == "spherical_midpoint"]
    assert len(mine) == 4 and all(str(run) in page for run in mine)
    assert (folder / "site" / "long.toml").read_text() == LONG
    for said in ("orders.toml", "long.toml", "sweep query long.zarr", "has its declared order"):
        assert said in page
    odd = next((folder / "site" / "free_rigid_body").glob("rk4-*.html")).read_text()
    assert "<b>&" not in odd and "rk4 &lt;b&gt;&amp;&#34;$h$/.." in odd.replace("<wbr>", "")


def test_a_command_of_a_certificate_shows_its_runs(folder, command):
    page = (folder / "site" / MIDPOINT).read_text()
    said = re.search(r"<code>sweep (query orders.zarr .*?)</code>", page)[1]
    assert said == "query orders.zarr &#39;integrator == &#34;spherical_midpoint&#34;&#39; -e spin"
    shown = command(
        folder, "query", "orders.zarr", 'integrator == "spherical_midpoint"', "-e", "spin", "--json"
    )
    assert len(json.loads(shown.stdout)["spin"]) == 12


def test_a_site_is_replaced_and_nothing_else_is(folder, tmp_path):
    site = shutil.copytree(folder / "site", tmp_path / "new" / "site")
    assert (site / MIDPOINT).exists() and (site / "long.html").exists()
    few = "integrator == 'rk2_midpoint'"
    page = sweep.report_site([folder / "orders.zarr", folder / "orders.zarr"], site, few)
    assert page == site / "index.html"
    second = {str(page.relative_to(site)) for page in site.rglob("*")}
    assert "orders.html" in second and "orders-2.html" not in second  # it is one store
    assert not {"long.html", MIDPOINT} & second
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["site"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"mine has files that are no pages .* thesis.tex; move"):
        sweep.report_site([folder / "long.zarr"], tmp_path / "mine")
    (site / "free_rigid_body" / "notes.html").write_text("")
    with pytest.raises(InputError, match=r"such as free_rigid_body/notes.html; move them"):
        sweep.report_site([folder / "long.zarr"], site)
    with pytest.raises(InputError, match="thesis.tex is no directory"):
        sweep.report_site([folder / "long.zarr"], tmp_path / "mine" / "thesis.tex")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["long.zarr", "orders.zarr"], "a report is about one store; give --site DIR"),
        (["long.zarr", "--workers", "1"], "--workers is for --site"),
        (["long.zarr", "--site", "other", "--output", "a.html"], "either --output or --site"),
        (["long.zarr", "lacking", "--site", "other"], "lacking: there is no such file"),
        (["long.zarr", "--where", "step_size > 9", "--site", "other"], "step_size > 9"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(folder, command, arguments, said):
    assert said in command(folder, "report", *arguments, code=2).stderr
    assert not (Path(folder) / "other").exists()
