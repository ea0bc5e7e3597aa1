"""A notebook that runs a study and looks at it, by a kernel of its own: what its outputs are."""

import base64

import nbformat
import pytest
from nbclient import NotebookClient
from test_service_python import STUDY
from waiting import HANG

pytestmark = pytest.mark.slow  # the kernel takes seconds to start

CELLS = {
    "study": f"{STUDY}\nstudy",
    "plan": "study.plan('small.zarr')",
    "run": "outcome = study.run('small.zarr', workers=1)\noutcome",
    "drift": "rows = sweep.drift_table('small.zarr')\nrows",
    "frame": "rows.to_dataframe()[['integrator', 'verdict']]",
    "system": "import systems\nsystems.get('spherical_pendulum_chain')",
    "integrator": "import integrators\nintegrators.get('variational+suzuki4')",
    "accessor": "tree = sweep.open_study('small.zarr')\ntree.geosweep.query('step_size < 0.02')",
    "plot": "tree['pendulum'].to_dataset().geosweep.plot.energy()",
    "own": """def own(f, t, y, h):
    return y + h * f(t + h / 2, y + h / 2 * f(t, y))
keys = study.experiments[0]
made = sweep.Experiment(
    name="own", system=keys.system, integrators=[sweep.python_method(own, order=2)],
    initial_condition="lee", step_size=[0.02, 0.01], duration=0.2, samples=1,
)
sweep.Study("own", [made]).run("own.zarr", workers=1).complete""",
    "bad": "sweep.Study('bad', [])",
}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The notebook after it ran, and its outputs by the name of the cell."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    cells[-1].metadata.tags = ["raises-exception"]
    made = nbformat.v4.new_notebook(cells=cells)
    folder = tmp_path_factory.mktemp("notebook")
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(made, timeout=HANG, kernel_name="python3", resources=resources).execute()
    return dict(zip(CELLS, (cell.outputs for cell in cells), strict=True))


def only(outputs, kind="text/html"):
    """What the only output of a cell is, as a kind of data."""
    (output,) = outputs
    return output.data[kind]


def test_progress_is_one_output_that_ends_with_all_runs(notebook):
    progress, outcome = notebook["run"]
    assert progress.output_type == "display_data" and outcome.output_type == "execute_result"
    assert progress.data["text/plain"].startswith("2 of 2 runs in ")
    assert "<progress value='1.000'" in progress.data["text/html"]
    assert "Complete: " in outcome.data["text/html"]


def test_a_step_of_a_cell_is_an_integrator(notebook):
    assert notebook["own"][-1].data["text/plain"] == "True"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("study", ["Study small", "spherical_pendulum_chain", "step 0.01 – 0.02"]),
        ("plan", ["1 task,", "of CPU time", "pendulum"]),
        ("drift", ["energy error", "<th style='text-align:left'>integrator</th>", "verdict"]),
        ("frame", ["<table", "rk4"]),
        ("system", ["spherical_pendulum_chain: ", "gravity: 1.0 m s-2", "lee: "]),
        ("integrator", ["variational+suzuki4: ", "symmetric", "yes"]),
        ("accessor", ["xarray.DataTree"]),
    ],
)
def test_objects_show_as_html(notebook, cell, words):
    page = only(notebook[cell])
    assert not [word for word in words if word not in page], page


def test_a_picture_shows_once(notebook):
    (output,) = notebook["plot"]
    assert base64.b64decode(output.data["image/png"])[:4] == b"\x89PNG"
    assert "<svg" in output.data["image/svg+xml"]


def test_bad_input_ends_with_its_sentence(notebook):
    (output,) = notebook["bad"]
    assert output.ename == "StudyError" and "experiment" in output.evalue
