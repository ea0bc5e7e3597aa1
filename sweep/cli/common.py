"""Arguments and lookups that several subcommands share."""

import contextlib
import csv
import functools
import importlib.resources
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.streams import holds_all_characters, raw_terminal_stream
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.stop_request import process_age
from sweep.store.backends.places import require_local_path
from sweep.text import (
    escape_control_characters,
    escape_controls_in_lines,
    format_number,
    format_table,
    value_for_json,
)

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

    from sweep.plugins.plots import PlotKind
    from sweep.store.store import Store
    from sweep.study.run_table import RunTable
    from sweep.tables import Table
    from sweep.tables.answers import Answer

Command = Callable[..., None]

MOST_SECONDS = 1e9  # of a time that is given: no clock waits for much longer
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Duration(click.ParamType[float, str | float]):
    """Seconds, as a number or with units, at most 30 years: 3600, 90s, 55m, 2h, 1h30m."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds as a float; fails for anything but a positive duration that can be waited."""
        if isinstance(value, float):
            return value
        number = r"(\d+\.?\d*|\.\d+)"
        parts = re.fullmatch("".join(rf"(?:{number}{unit})?" for unit in UNITS), value)
        if re.fullmatch(number, value):
            seconds = float(value)
        elif parts is not None:
            counts = zip(parts.groups(default="0"), UNITS.values(), strict=True)
            seconds = sum(float(count) * unit for count, unit in counts)
        else:
            seconds = 0.0
        if not 0.0 < seconds <= MOST_SECONDS:
            self.fail(f"{value!r} is no time; expected seconds, or such as 90s, 55m, 2h or 1h30m")
        return seconds


max_time_option = click.option(
    "--max-time",
    type=Duration(),
    metavar="TIME",
    help="Stop within this time from the start: 3600 (seconds), 55m, 2h, 1h30m.",
)

budget_option = click.option(
    "--budget",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Largest CPU time of the runs added to decide verdicts: 600 (seconds), 10m, 2h.",
)

checkpoint_option = click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0.0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between checkpoints of a task; the task of a killed worker resumes from the last.",
)


def _file_option(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, metavar="FILE", type=click.Path(), help=text)


def _options_of_workers(kinds: str, count: str) -> dict[str, Callable[[Command], Command]]:
    """Options for workers that are started: on which kinds of clusters, and how many by default."""
    return {
        "profile": click.option(
            "--cluster",
            "profile",
            metavar="PROFILE",
            help=f"Where to start workers: {kinds}, or a profile in geosweep.clusters of Dask's "
            "configuration.",
        ),
        "workers": click.option(
            "--workers",
            type=click.IntRange(min=1),
            help=f"Number of workers to start. By default {count}.",
        ),
    }


_HERE_OR_ELSEWHERE = _options_of_workers(
    "local (the default), slurm, pbs, lsf, sge, kubernetes",
    "one per core locally, but no more than there are tasks; elsewhere as the profile says",
)
_IN_JOBS = _options_of_workers("slurm, pbs, lsf, sge", "as the profile says")

# By the names of the fields of a `ClusterSpec`.
_CLUSTER_OPTIONS: dict[str, Callable[[Command], Command]] = {
    **_HERE_OR_ELSEWHERE,
    "scheduler": click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a running Dask scheduler: tcp://host:8786.",
    ),
    "scheduler_file": _file_option(
        "--scheduler-file", "File with that address, written by the scheduler."
    ),
    "tls_ca_file": _file_option(
        "--tls-ca-file",
        "For tls://, the authority's certificate; by default as in Dask's configuration.",
    ),
    "tls_cert": _file_option(
        "--tls-cert", "Certificate of this process, signed by that authority."
    ),
    "tls_key": _file_option(
        "--tls-key", "Its private key, unless the certificate's file holds that too."
    ),
}


def cluster_options(
    command: Command, options: Mapping[str, Callable[[Command], Command]] = _CLUSTER_OPTIONS
) -> Command:
    """Decorator that adds the options for where to compute.

    They become one argument, `cluster`: a `sweep.clusters.spec.ClusterSpec`, whose fields are None
    for options that were not given.
    """

    @functools.wraps(command)
    def command_with_cluster(**given: Any) -> None:
        cluster = ClusterSpec(**{name: given.pop(name) for name in _CLUSTER_OPTIONS})
        command(cluster=cluster, **given)

    return _with_options(command_with_cluster, options.values())


def submission_options(command: Command) -> Command:
    """As `cluster_options`, of a command that starts no workers on this machine."""
    return cluster_options(command, _CLUSTER_OPTIONS | _IN_JOBS)


def run_options(command: Command) -> Command:
    """Decorator that adds the options of all commands that compute.

    They become one argument, `options`: a dict of arguments of `sweep.run`.
    """

    @functools.wraps(command)
    def command_with_run_options(
        cluster: ClusterSpec, max_time: float | None, checkpoint_every: float, **given: Any
    ) -> None:
        options = {
            "cluster": cluster,
            "max_time": remaining_max_time(max_time),
            "checkpoint_every": checkpoint_every,
        }
        command(options=options, **given)

    return cluster_options(
        _with_options(command_with_run_options, (max_time_option, checkpoint_option))
    )


def _with_options(command: Command, options: Collection[Callable[[Command], Command]]) -> Command:
    for option in reversed([*options]):
        command = option(command)
    return command


def complete_study(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Shell completions of a STUDY argument: packaged studies and files."""
    studies = importlib.resources.files("sweep").joinpath("studies").iterdir()
    names = sorted(file.name.removesuffix(".toml") for file in studies if ".toml" in file.name)
    packaged = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*packaged, CompletionItem(incomplete, type="file")]


study_argument = click.argument("study", shell_complete=complete_study)
trust_option = click.option(
    "--trust-plugins",
    is_flag=True,
    help="Approve the plugins that a store brings, for this command and from now on.",
)
store_argument = click.argument("store", type=click.Path())
optional_store = click.argument("store", required=False, type=click.Path())
_source_option = click.option(
    "--study",
    "source",
    metavar="STUDY",
    help="Include what the plugins of this study add; a file or a store.",
)
summary_option = click.option(
    "--summary/--no-summary", default=True, help="Tables and plots at the end."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def format_option(command: Command) -> Command:
    """Decorator that adds ``--format`` and ``--json``, which become one argument, `form`."""

    @functools.wraps(command)
    def command_in_format(form: str | None, as_json: bool, **given: Any) -> None:
        if as_json and form not in (None, "json"):
            raise InputError(f"--json and --format {form} are two formats: give one", key="format")
        command(form="json" if as_json else form or "text", **given)

    choice = click.Choice(["text", "json", "csv", "latex"])
    option = click.option(
        "--format",
        "form",
        type=choice,
        help="csv: a row for each result; latex: tables for a paper, with booktabs.  "
        "[default: text]",
    )
    return option(json_option(command_in_format))


experiment_option = click.option(
    "--experiment", "-e", multiple=True, metavar="NAME", help="Only this experiment; repeatable."
)
where_option = click.option(
    "--where",
    metavar="EXPR",
    help="Only runs for which this holds; an EXPRESSION of sweep query.",
)


at_option = click.option(
    "--at",
    type=click.Choice(["end", "sup"]),
    default="end",
    help="Error at the end of a run, or its supremum over time.",
)


def plugin_library_option(command: Command) -> Command:
    """Decorator that adds ``--study`` and ``--trust-plugins``, which become `library`.

    It is the `sweep.plugins.Library` of that study, or `sweep.plugins.BUILT_IN` without one.
    """

    @functools.wraps(command)
    def command_with_library(source: str | None, trust_plugins: bool, **given: Any) -> None:
        library = (
            sweep.plugins.BUILT_IN
            if source is None
            else sweep.store.resolve_study_and_store(source, None, trust_plugins)[0].library
        )
        command(library=library, **given)

    return _with_options(command_with_library, (_source_option, trust_option))


def answer_options(command: Command) -> Command:
    """Decorator that adds STORE and the options of all commands that answer a question about it.

    They become the arguments `datasets`, its run tables by experiment, and `form`, as of
    `format_option`.
    """

    @functools.wraps(command)
    def command_with_datasets(
        store: str, experiment: tuple[str, ...], where: str | None, **given: Any
    ) -> None:
        command(datasets=open_experiments_for_command(store, experiment, where), **given)

    return _with_options(
        format_option(command_with_datasets), (store_argument, experiment_option, where_option)
    )


def open_experiments_for_command(
    store: "str | Store", experiments: Sequence[str] = (), where: str | None = None
) -> "dict[str, xr.Dataset]":
    """Open the runs of a store that its study asks for, by experiment.

    Parameters
    ----------
    store : str or Store
    experiments : sequence of str, optional
        Only these.
    where : str, optional
        Only the runs for which this expression holds; experiments without such runs are left out.

    Returns
    -------
    dict of str to xarray.Dataset

    Raises
    ------
    InputError
        If there is no such store or experiment, or if the expression holds for no run.
    """
    selected = select_runs_for_command(store, experiments, where, required=where is not None)
    return {name: runs for name, (runs, _) in selected.items()}


def select_runs_for_command(
    store: "str | Store",
    experiments: Sequence[str] = (),
    expression: str | None = None,
    required: bool = True,
) -> "dict[str, tuple[xr.Dataset, int]]":
    """Select the runs of a store for which an expression holds, by experiment.

    Parameters
    ----------
    store : str or Store
    experiments : sequence of str, optional
        Only these.
    expression : str, optional
        All runs without one.
    required : bool
        Whether it is an error that no run is selected.

    Returns
    -------
    dict of str to (xarray.Dataset, int)
        The selected runs, and the number of runs of the experiment; experiments without selected
        runs are left out.

    Raises
    ------
    InputError
        If there is no such store or experiment, or if no run is selected.
    """
    selected: dict[str, tuple[xr.Dataset, int]] = {}
    refused: list[tuple[str, InputError]] = []
    tree = sweep.open_study(store)
    for name in experiments:
        check_known(f"experiment of {store}", name, tree.children)
    for name, node in tree.children.items():
        dataset = node.to_dataset()
        in_study = dataset["in_study"].values
        if (experiments and name not in experiments) or not in_study.any():
            continue
        dataset = dataset if in_study.all() else dataset.isel(run=in_study)
        try:
            runs = dataset if expression is None else sweep.query(dataset, expression)
            selected[name] = runs, dataset.sizes["run"]
        except InputError as error:
            refused.append((name, error))
    if not selected and required:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    return selected


def json_for_output(value: object, **options: Any) -> str:
    """A value as JSON for standard output: escaped where its encoding lacks characters."""
    return json.dumps(value, ensure_ascii=not holds_all_characters(sys.stdout), **options)


def echo_json(value: object) -> None:
    """Print a value as JSON, with null for NaN and infinities."""
    click.echo(json_for_output(value_for_json(value), indent=2))


def rows_as_text(
    rows: Sequence[Mapping[str, Any]], cell: Callable[[Any], str] = format_number
) -> str:
    """Rows with the same keys as a table, with `cell` of each value."""
    return format_table(rows[0], [[cell(value) for value in row.values()] for row in rows])


def print_answer(
    answer: "Answer",
    datasets: "Mapping[str, xr.Dataset]",
    form: str,
    *arguments: Any,
    heading: Callable[[str, list[Any]], str] = lambda name, rows: name,
) -> None:
    """Print an answer to each experiment; on standard error why others have none.

    Parameters
    ----------
    answer : sweep.tables.answers.Answer
    datasets : dict of str to xarray.Dataset
        Run tables by experiment.
    form : {"text", "json", "csv", "latex"}
    *arguments
        As its `analyse` takes them behind the run table.
    heading : callable, optional
        The line above the tables of an experiment, from its name and rows.

    Raises
    ------
    InputError
        Where no experiment has any.
    """
    analyse = answer.analyse
    assert analyse is not None
    found, refused = sweep.analysis.ask_each_experiment(
        lambda dataset: analyse(dataset, *arguments), datasets
    )
    for name, refusal in refused:
        click.echo(f"{name}: {refusal}", err=True)
    found = {name: rows for name, rows in found.items() if rows}
    if not found:
        raise InputError("the store has no runs that could answer")
    if form == "json":
        echo_json(
            {
                name: json_answer(answer.summarize(rows), rows, **answer.more(rows))
                for name, rows in found.items()
            }
        )
    elif form == "csv":
        echo_csv(found)
    else:
        tables = {name: answer.tables(datasets[name], rows) for name, rows in found.items()}
        headings = {name: heading(name, rows) for name, rows in found.items()}
        echo_tables(form, tables, headings, answer.name)


def json_answer(
    summary: Sequence[str], rows: "Sequence[DataclassInstance]", **more: "list[DataclassInstance]"
) -> dict[str, Sequence[Any]]:
    """Rows of an analysis with the sentences that summarize them, as a dict for `echo_json`."""
    of_rows = {"rows": rows, **more}
    return {"summary": summary} | {
        name: sweep.tables.table_rows_for_json(own) for name, own in of_rows.items()
    }


def echo_csv(answers: "Mapping[str, Sequence[DataclassInstance]]") -> None:
    """Print rows of an analysis as one CSV table.

    Parameters
    ----------
    answers : dict of str to list of dataclass instances
        The rows by experiment, which is the first column. A field that is a dict has a column for
        each key; lists, such as the points of a curve, are left out, and only in the JSON output.
    """
    flat: list[dict[str, object]] = []
    for experiment, rows in answers.items():
        for row in sweep.tables.table_rows_for_json(rows):
            cells: dict[str, object] = {"experiment": experiment}
            for key, value in row.items():
                inner = value.items() if isinstance(value, dict) else ()
                cells |= {f"{key}.{name}": item for name, item in inner} or {key: value}
            flat.append({k: v for k, v in cells.items() if not isinstance(v, list | dict)})
    writer = csv.DictWriter(
        text := io.StringIO(), list(dict.fromkeys(key for row in flat for key in row)),
        lineterminator="\n",
    )  # fmt: skip
    writer.writeheader()
    writer.writerows(flat)
    echo_document(escape_controls_in_lines(text.getvalue().rstrip("\n")))


def echo_tables(
    form: str,
    tables: "Mapping[str, Sequence[Table]]",
    titles: Mapping[str, str],
    label: str,
) -> None:
    """Print the tables of each experiment as text or LaTeX.

    Parameters
    ----------
    form : {"text", "latex"}
    tables : dict of str to list of Table
        By experiment.
    titles : dict of str to str
        The heading of each experiment's tables, with which captions begin in LaTeX.
    label : str
        Ending of the LaTeX label, which begins with the experiment's name.
    """
    for name, group in tables.items():
        if form == "latex":
            latex = sweep.tables.tables_as_latex(group, titles[name], f"{name}-{label}")
            echo_document(latex + "\n")
        else:
            click.echo(f"{titles[name]}\n{sweep.tables.tables_as_text(group)}\n")


def echo_document(text: str) -> None:
    """Print a text unchanged to a file or pipe; to a terminal with control characters visible."""
    if sys.stdout.isatty():
        click.echo(text.replace("\r\n", "\n").expandtabs())
    else:
        click.echo(text, file=raw_terminal_stream(sys.stdout))


@contextlib.contextmanager
def writing(path: str | Path, key: str | None = None) -> Iterator[None]:
    """Context in which a file is written; `InputError`, about an argument `key`, where it cannot.

    Also where it exists, and is opened as a new one.
    """
    try:
        yield
    except FileExistsError:
        raise InputError(f"{path} exists; give another path, or remove it first", key=key) from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", key=key) from None


def write_from_template(template: str, path: str, changes: Mapping[str, str]) -> Path:
    """Write a template of `sweep.cli` to a new file, with texts in the place of others."""
    folder = importlib.resources.files("sweep").joinpath("cli", "templates")
    text = folder.joinpath(template).read_text("utf-8")
    for old, new in changes.items():
        text = text.replace(old, new)
    target = require_local_path(path)
    with writing(path), target.open("x", encoding="utf-8") as file:
        file.write(text)
    return target


def picture_file_stem(experiment: str, kind: str) -> str:
    """Name of the file of a picture, without an ending."""
    return f"{escape_control_characters(experiment).replace(' ', '-')}-{kind}"


@dataclass(frozen=True)
class Picture:
    """A picture, or why there is none.

    Parameters
    ----------
    name : str
        Name of its experiment, or what it compares.
    kind : str
    figure : matplotlib.figure.Figure or None
    error : InputError, optional
        What is missing for it.
    """

    name: str
    kind: str
    figure: Any
    error: InputError | None = None

    @property
    def why_not(self) -> str:
        """Why it is not drawn, in words."""
        return ": ".join(filter(None, (self.name, self.kind, str(self.error))))

    @property
    def file_stem(self) -> str:
        """Name of its file, without an ending."""
        return picture_file_stem(self.name, self.kind)

    def save(self, path: Path, mark: str = "") -> Path:
        """Write it to a file, whose directory is made; `InputError` where that cannot be."""
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep.plots.save(self.figure, path, mark)
        return path


def draw_pictures(
    datasets: "Mapping[str, xr.Dataset]",
    kinds: "Mapping[PlotKind, Mapping[str, Any]]",
    where: str | None = None,
) -> Iterator[Picture]:
    """Draw experiments.

    Parameters
    ----------
    datasets : dict of str to xarray.Dataset
        By experiment.
    kinds : dict of PlotKind to dict
        Kinds of pictures, with the options of each.
    where : str, optional
        Only the runs for which this expression holds.

    Yields
    ------
    Picture
        Of each experiment and kind.
    """
    for name, dataset in datasets.items():
        try:
            runs = dataset if where is None else sweep.query(dataset, where)
        except InputError as error:
            yield Picture(name, "", None, error)
            continue
        for kind, options in kinds.items():
            try:
                yield Picture(name, kind.name, sweep.plots.picture(kind, runs, **options))
            except InputError as error:
                yield Picture(name, kind.name, None, error)


def print_warnings_before_runs(
    tables: "Sequence[RunTable]", pending: "Sequence[NDArray[np.bool_]] | None" = None
) -> None:
    """Print to standard error which step sizes are unstable, and what will hardly be answered.

    Parameters
    ----------
    tables : list of sweep.study.run_table.RunTable
    pending : list of ndarray of bool, optional
        The runs of each table that are to be computed; all unless given.
    """
    to_compute = []
    of_tables = [None] * len(tables) if pending is None else pending
    for table, runs in zip(tables, of_tables, strict=True):
        for unstable in sweep.study.steps_beyond_stability_limit(table, runs):
            click.echo(str(unstable), err=True)
        if runs is None or runs.any():
            to_compute.append(table)
    for line in sweep.campaign.warnings_before_runs(to_compute):
        click.echo(f"Warning: {line}", err=True)


def remaining_max_time(max_time: float | None) -> float | None:
    """Seconds that are left of ``--max-time``, which counts from the start of the process."""
    if max_time is None:
        return None

    return max(max_time - process_age(), 1e-3)
