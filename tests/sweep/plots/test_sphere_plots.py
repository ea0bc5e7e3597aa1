"""Pictures on the sphere: which points and lines are drawn, and what is refused."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from paper_pictures import short_results
from run_tables import run_table

import sweep
from integrators.errors import InputError
from sweep import papers, plots

TIMES = np.linspace(0.0, 10.0, 51)


def circle(colatitude, rate=0.1, times=TIMES):
    """A motion along a circle of latitude, shape (times, 3)."""
    angle = rate * times
    radius = np.sin(colatitude)
    height = np.full_like(angle, np.cos(colatitude))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def states(bodies=1, starts=1, times=TIMES, labels="w", orders=None, **settings):
    """A run table whose body b of start s moves along a circle of its own."""
    names = tuple(f"s{start}" for start in range(starts))
    orders = orders or {"spherical_midpoint": 2}
    table = run_table(orders, step_sizes=(0.1,), starts=names, times=times, **settings)
    place = np.array([names.index(name) for name in table.initial_condition.values])
    paths = [[circle(0.5 + 0.3 * b + 0.1 * s, times=times) for b in range(bodies)] for s in place]
    rows = [f"{labels}{body}" for body in range(bodies)]
    table.attrs["system"] = json.dumps({"name": "free_rigid_body"})
    return table.assign(
        state=(("run", "time", "row", "component"), np.swapaxes(paths, 1, 2))
    ).assign_coords(row=rows)


def drawn(ax):
    """The lines that are neither the outline nor an axis: colour and finite points, (n, 2)."""
    return [
        (line.get_color(), points[np.isfinite(points[:, 0])])
        for line in paths(ax)
        if len(points := line.get_xydata())
    ]


def paths(ax):
    """Lines in the colours of starts and bodies, which are no greys."""
    from matplotlib.colors import to_rgb

    return [line for line in ax.lines if len({*to_rgb(line.get_color())}) > 1]


# --- views ------------------------------------------------------------------------------------


def seen_from(direction, points):
    """What is drawn of states at these points: on the disc of this side, and on the other."""
    times = np.arange(float(len(points)))
    state = (("run", "time", "row", "component"), np.asarray(points)[None, :, None])
    figure = plots.sphere(states(times=times).assign(state=state), view=direction)
    return [np.concatenate([np.empty((0, 2)), *(p for _, p in drawn(ax))]) for ax in figure.axes]


def test_each_point_is_seen_from_one_side():
    points = np.random.default_rng(1).normal(size=(200, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    depth = points @ [1 / 3, 2 / 3, 2 / 3]
    assert 50 < np.sum(depth > 0) < 150
    for disc, side in zip(seen_from((1.0, 2.0, 2.0), points), (depth > 0, depth < 0), strict=True):
        np.testing.assert_allclose(np.sum(disc**2, axis=1), 1 - depth[side] ** 2)


def test_e3_is_up_and_from_above_e1_is_right():
    front, back = seen_from((1.0, 1.0, 0.0), [[0.6, 0.0, 0.8], [-0.6, 0.0, -0.8]])
    np.testing.assert_allclose(front, [[-0.6 / np.sqrt(2), 0.8]])  # e1 is to the left of (1, 1, 0)
    np.testing.assert_allclose(back[:, 1], [-0.8])
    above, _ = seen_from((0.0, 0.0, 2.0), [[0.6, 0.0, 0.8], [0.0, 0.6, 0.8]])
    np.testing.assert_allclose(above, [[0.6, 0.0], [0.0, 0.6]], atol=1e-15)
    for direction in ((0.0, 0.0, 0.0), (1.0, 0.0), (np.nan, 0.0, 1.0)):
        with pytest.raises(InputError, match="view = .*other than 0, 0, 0"):
            plots.sphere(states(), view=direction)


# --- paths ------------------------------------------------------------------------------------


def test_every_state_is_on_one_of_the_two_discs():
    figure = plots.sphere(states(starts=3))
    front, back = figure.axes
    found = {}
    for ax in (front, back):
        for colour, points in drawn(ax):
            assert np.all(np.sum(points**2, axis=1) <= 1 + 1e-12)
            found[colour] = found.get(colour, 0) + len(points)
    assert len(found) == 3 and {*found.values()} == {len(TIMES)}


def test_lines_join_close_samples_and_points_stand_for_a_section():
    dense = plots.sphere(states()).axes[0].lines[-1]
    assert (dense.get_linestyle(), dense.get_marker()) == ("-", "None")
    apart = np.arange(0.0, 400.0, 8.0)
    section = plots.sphere(states(times=apart)).axes[0].lines[-1]
    assert (section.get_linestyle(), section.get_marker()) == ("None", ".")


def test_the_caption_says_what_is_shown():
    figure = plots.sphere(states(starts=30))
    assert figure.caption == ["spherical_midpoint, h = 0.1, 30 starts, 51 samples until t = 10 s"]
    assert figure.legends == []
    longer = states()
    longer["state"] = 2.0 * longer["state"]
    assert "directions only" in plots.sphere(longer).get_suptitle()


def test_a_colour_is_a_start_or_where_there_is_one_a_body():
    def names(figure):
        (legend,) = figure.legends
        return [text.get_text() for text in legend.get_texts()]

    one = plots.sphere(states(bodies=3, labels="q"))
    assert names(one) == ["body 0", "body 1", "body 2"]
    assert len({colour for ax in one.axes for colour, _ in drawn(ax)}) == 3
    several = plots.sphere(states(bodies=3, starts=2))
    assert names(several) == ["s0", "s1"]
    assert len({colour for ax in several.axes for colour, _ in drawn(ax)}) == 2
    assert "spin 0, spin 1, spin 2" in several.get_suptitle()


def test_chosen_bodies_alone_are_drawn():
    table = states(bodies=9)
    figure = plots.sphere(table, bodies=[4])
    total = sum(len(points) for ax in figure.axes for _, points in drawn(ax))
    assert total == len(TIMES) and "spin 4" in figure.get_suptitle()


def test_a_panel_for_each_integrator_and_scanned_value():
    table = states(orders={"a": 2, "b": 2}, scan={"epsilon": (0.01, 0.07)})
    figure = plots.sphere(table)
    titles = [title for ax in figure.axes if (title := ax.get_title(loc="left"))]
    assert titles[0] == "epsilon=0.01, a, h = 0.1" and len(titles) == 4
    assert len(figure.axes) == 8
    figure = plots.sphere(states(scan={"epsilon": (0.01, 0.07)}))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["epsilon=0.01", "", "epsilon=0.07", ""]
    with pytest.raises(InputError, match="8 combinations.*select some"):
        plots.sphere(states(scan={"epsilon": np.arange(8.0)}))


def test_a_run_that_stopped_is_drawn_until_then():
    table = states()
    table["status"][:] = 3
    table["state"][:, 20:] = np.nan
    figure = plots.sphere(table)
    assert sum(len(points) for ax in figure.axes for _, points in drawn(ax)) == 20


def test_no_more_than_can_be_told_apart():
    figure = plots.sphere(states(starts=240, times=np.linspace(0.0, 2000.0, 2001)))
    assert "200 of 240 starts, 1500 samples until t = 1499 s" in figure.caption[0]


# --- many bodies ------------------------------------------------------------------------------


def chain(count=20, samples=11):
    """A closed curve of spins that turns about e3."""
    s = 2 * np.pi * np.arange(count) / count
    turn = np.linspace(0.0, 1.0, samples)[:, None] + s
    curve = np.stack([0.8 * np.cos(turn), 0.8 * np.sin(turn), np.full_like(turn, 0.6)], axis=-1)
    table = states(bodies=count, times=np.linspace(0.0, 5.0, samples))
    return table.assign(state=(("run", "time", "row", "component"), curve[None]))


def test_many_bodies_are_shown_at_six_times_joined_to_a_curve():
    figure = plots.sphere(chain())
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [f"t = {t:g} s" for t in range(6)]
    far, near = paths(figure.axes[0])
    assert (far.get_alpha(), near.get_alpha()) == (0.35, None)
    count = sum(np.isfinite(line.get_xdata()).sum() for line in (far, near))
    assert count == 20 + 1  # back to the first


def test_bodies_apart_are_points():
    table = chain()
    table["state"][:] = table["state"].values[:, :, np.random.default_rng(0).permutation(20)]
    lines = paths(plots.sphere(table).axes[0])
    assert all(line.get_linestyle() == "None" for line in lines)
    assert sum(len(line.get_xdata()) for line in lines) == 20


def test_an_open_chain_is_not_joined_to_its_first_body():
    open_chain = chain().isel(row=slice(15))
    assert sum(np.isfinite(line.get_xdata()).sum() for line in paths(_first(open_chain))) == 15
    straight = chain()
    straight["state"][:] = straight["state"].values[:, :, :1]  # a rod that hangs
    assert sum(np.isfinite(line.get_xdata()).sum() for line in paths(_first(straight))) == 20


def _first(table):
    return plots.sphere(table).axes[0]


# --- what is refused, and the command ---------------------------------------------------------


def test_what_cannot_be_drawn_is_refused_with_a_reason():
    table = states()
    with pytest.raises(InputError, match="no states are stored.*'state' in `record`"):
        plots.sphere(table.drop_vars("state"))
    with pytest.raises(InputError, match="there is no body 1: there are 1"):
        plots.sphere(table, bodies=[1])
    with pytest.raises(InputError, match="rows R0; .* needs q of a body or w"):
        plots.sphere(table.assign_coords(row=["R0"]))


STUDY = """
format = 1
name = "small"

[[experiment]]
name = "section"
system = "forced_rigid_body"
integrators = ["spherical_midpoint"]
time_unit = 6.283185307179586
step_size = 0.05
initial_condition = { lattice = 5 }
duration = 20.0
samples = 20
record = ["state"]

[[experiment]]
name = "energy"
system = "free_rigid_body"
integrators = ["spherical_midpoint"]
step_size = 0.1
initial_condition = "figure3"
duration = 1.0
samples = 10
record = ["energy"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    path = tmp_path_factory.mktemp("sphere")
    (path / "small.toml").write_text(STUDY)
    command(path, "run", "small.toml", "--workers", "1")
    return path


def test_a_run_ends_with_the_pictures_that_it_has_the_states_for(folder):
    names = {path.name for path in (folder / "small-plots").iterdir()}
    assert "section-sphere.png" in names and "energy-sphere.png" not in names


def test_only_pictures_of_other_data_are_drawn_again(folder, command):
    place = folder / "small-plots"
    sphere, energy = place / "section-sphere.png", place / "energy-energy.png"
    first = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    again = [sys.executable, "-X", "importtime", "-m", "sweep", "run", "small.toml"]
    done = subprocess.run(again, cwd=folder, capture_output=True, text=True, check=True)
    assert f"small-plots (0 drawn, {len(first)} unchanged)\n" in done.stdout
    imported = {*re.findall(r"\| +(\w+)$", done.stderr, re.M)}
    assert "numpy" in imported and not imported & {"xarray", "matplotlib", "distributed"}
    energy.write_bytes(energy.read_bytes()[:-100])  # as of a disk that was full
    sphere.unlink()
    said = command(folder, "run", "small.toml").stdout
    assert "unchanged" not in said and sphere.exists() and energy.stat().st_mtime_ns > first[energy]
    (folder / "more.toml").write_text(STUDY.replace("step_size = 0.1", "step_size = [0.1, 0.05]"))
    said = command(folder, "run", "more.toml", "small.zarr").stdout
    assert "small-plots (" in said and " drawn, 1 unchanged)" in said


def test_a_run_is_complete_though_no_process_can_write_its_pictures(folder, program):
    (folder / "blocked-plots").write_text("in the way")
    done = program(folder, "run", "small.toml", "blocked.zarr", "--workers", "2")
    assert re.search(r"No plots: .*blocked-plots", done.stderr) and "Complete: " in done.stdout


def test_the_command_draws_one_kind_and_says_what_it_left_out(folder, command):
    done = command(folder, "plot", "sphere", "small.zarr", "-o", "chosen")
    assert done.stdout.split() == ["chosen/section-sphere.png"]
    assert "Not drawn: energy: sphere: no states are stored" in done.stderr
    done = command(folder, "plot", "small.zarr", "-e", "section", "--body", "0",
                   "--view", "0", "0", "1", "-o", "above", "--format", "svg")  # fmt: skip
    assert done.stdout.split() == ["above/section-sphere.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("spher small.zarr", "unknown kind of plot 'spher'. Did you mean 'sphere'?"),
        ("sphere", "`sweep plot sphere` of which store?"),
        ("energy small.zarr --body 0", "the kind energy takes no --body; kinds that do: sphere"),
        ("sphere small.zarr -e energy", "Error: energy: sphere: no states"),
        ("sphere small.zarr -e energy -o a.pdf", "energy: sphere: no states are stored"),
        ("unit-length small.zarr -e section", 'record = ["unit_length"]'),
        ("order small.zarr", "`reference = {…}` in the experiment"),
        ("small.zarr -o a.pdf", "one picture: give its KIND"),
        ("energy small.zarr -o a.pfd", "ends in one of .pdf, .svg"),
        ("energy small.zarr -o a.pdf --format png", "--format needs a directory"),
        ("small.zarr -e section --body 3", "there is no body 3"),
        ("small.zarr -e section --view 0 0 0", "view = (0.0, 0.0, 0.0)"),
        ("small.zarr --where step_size<", "'step_size<' cannot be evaluated"),
        ("small.zarr --where step_size>99", "section: no run is selected by step_size>99"),
    ],
)
def test_a_mistake_is_one_message(folder, command, arguments, message):
    done = command(folder, "plot", *arguments.split(), code=2)
    assert message in done.stderr and done.stdout == ""
    assert not (folder / "a.pdf").exists()


def test_one_picture_goes_to_a_file(folder, command):
    done = command(folder, "plot", "energy", "small.zarr", "-o", "new/one.pdf")
    assert done.stdout == "new/one.pdf\n"
    drawn = (folder / "new" / "one.pdf").read_bytes()
    assert drawn.startswith(b"%PDF") and b"/Subtype /Image" not in drawn  # vectors


def test_a_start_without_states_is_not_counted():
    table = states(starts=3)
    table["state"].values[1] = np.nan
    figure = plots.picture("sphere", table)
    assert figure.get_suptitle().replace("\xa0", " ").count("2 of 3 starts") == 2


# --- the figures of McLachlan et al. ----------------------------------------------------------


SHORTER = {
    "lattice = 80": "lattice = 20",
    "theta = [0.72, 0.8, 0.88, 2.4216, 2.3416, 2.2616]": "theta = 0.72",
    ", 0.72, 1.7908, 1.9308, 2.0708, 2.1908, 2.2908, 3.3616, 3.5016, 3.6416, 3.7616, 3.8616, 4.9324"
    ", 5.0724, 5.2124, 5.3324, 5.4324]": "]",
    "duration = 5000.0\nsamples = 10_000": "duration = 500.0\nsamples = 1000",
    "duration = 2000.0\nsamples = 100": "duration = 20.0\nsamples = 100",
    "duration = 50.0\nsamples = 50": "duration = 5.0\nsamples = 50",
    "tracers = [0, 1000]": "tracers = [0, 100]",
}


@pytest.fixture(scope="module")
def mclachlan(tmp_path_factory, cluster):
    return short_results("mclachlan", SHORTER, tmp_path_factory.mktemp("mclachlan"), cluster)


@pytest.fixture(scope="module")
def portraits(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("portraits")
    command(folder, "run", "mclachlan-portraits", "--no-summary")
    tree = sweep.open_study(folder / "mclachlan-portraits.zarr")
    return {name: node.to_dataset() for name, node in tree.items()}


def assert_fits(figure):
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert box.x0 >= -1 and box.y0 >= -1
        assert box.x1 <= width + 1 and box.y1 <= height + 1


def test_trajectories_of_integrable_bodies_are_closed_curves(portraits):
    """Figures 2 and 4a: the energy of each trajectory is one of a level set's."""
    assert all((data["status"] == 0).all() for data in portraits.values())
    energies = portraits["free-rigid-body"]["energy"]
    assert np.ptp(energies.values, axis=1).max() < 1e-14
    moved = portraits["irreversible-body"]["energy_error_abs_max"]
    assert 1e-4 < moved.max() < 0.02


def test_vortices_stay_on_the_invariant_manifold(portraits):
    """Figure 7: the other three are the first, turned by half about e3, e1 and e2."""
    w = portraits["vortices"]["state"].values
    for body, signs in ((1, (-1, -1, 1)), (2, (1, -1, -1)), (3, (-1, 1, -1))):
        np.testing.assert_allclose(w[:, :, body], w[:, :, 0] * signs, atol=1e-12)


@pytest.mark.slow
def test_every_figure_of_the_paper_has_a_counterpart(mclachlan):
    paper = papers.PAPERS["mclachlan"]
    assert list(paper.pictures) == ["tracers", *(f"figure-{n}" for n in range(2, 9))]
    for name in paper.pictures:
        assert_fits(papers.draw_figure(paper, name, mclachlan))


@pytest.mark.slow
def test_chaos_grows_with_the_load(mclachlan):
    """Figure 5: more of the sections of ε = 0.07 scatter over energies."""
    dataset = mclachlan["mclachlan-sections"]["forced-body"]
    inverse = 1.0 / np.array([1.0, 4.0 / 3.0, 2.0])
    energy = 0.5 * np.sum(dataset["state"].values[:, :, 0] ** 2 * inverse, axis=-1)
    spread = np.ptp(energy, axis=1)
    weak, strong = (np.median(spread[dataset["epsilon"].values == e]) for e in (0.01, 0.07))
    assert strong > 3.0 * weak
