"""Arguments and lookups that several subcommands share."""

import csv
import functools
import importlib.resources
import io
import json
import re
import sys

import click
from click.shell_completion import CompletionItem

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.streams import raw_terminal_stream
from sweep.clusters.spec import ClusterSpec
from sweep.shutdown import process_age
from sweep.text import escape_control_characters, value_for_json

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Duration(click.ParamType):
    """Seconds, as a number or with units: 3600, 90s, 55m, 2h, 1h30m."""

    name = "duration"

    def convert(self, value, param, ctx):
        """The seconds as a float; refuses what is none, or not positive."""
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
        if not 0.0 < seconds < float("inf"):
            self.fail(f"{value!r} is no time; expected seconds, or such as 90s, 55m, 2h or 1h30m")
        return seconds


max_time_option = click.option(
    "--max-time",
    type=Duration(),
    metavar="TIME",
    help="End before so much time has passed since the start: 3600, 55m, 2h, 1h30m.",
)

budget_option = click.option(
    "--budget",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="CPU time of what is added to decide verdicts, at most: 600, 10m, 2h.",
)

_SCHEDULER_OPTIONS = (
    click.option(
        "--scheduler", metavar="ADDRESS", help="A running Dask scheduler, tcp://host:8786."
    ),
    click.option(
        "--scheduler-file", metavar="FILE", type=click.Path(), help="Written by a running one."
    ),
    click.option(
        "--tls-ca-file",
        metavar="FILE",
        type=click.Path(),
        help="For tls://: the authority's certificate; else as in Dask's configuration.",
    ),
    click.option(
        "--tls-cert", metavar="FILE", type=click.Path(), help="The own one, signed by it."
    ),
    click.option(
        "--tls-key", metavar="FILE", type=click.Path(), help="Unless that file holds the key too."
    ),
)

_RUN_OPTIONS = (
    click.option(
        "--cluster",
        metavar="PROFILE",
        help="local (unless given), slurm, pbs, lsf, sge, kubernetes, or what is in "
        "geosweep.clusters of Dask's configuration.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="So many; if local one a core, or as many as tasks if these are fewer; else what "
        "the profile says.",
    ),
)

_SUBMIT_OPTIONS = (
    click.option(
        "--cluster",
        metavar="PROFILE",
        help="Of a batch system: slurm, pbs, lsf, sge, or one in geosweep.clusters of Dask's "
        "configuration; or of a running scheduler.",
    ),
    click.option(
        "--workers", type=click.IntRange(min=1), help="So many in jobs; else as the profile says."
    ),
)

checkpoint_option = click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0.0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="A killed worker's task is done again from its last checkpoint, at most so much.",
)

_REACHING = ("scheduler", "scheduler_file", "tls_ca_file", "tls_cert", "tls_key")
_STARTING = ("profile", "workers")


def submit_options(command):
    """Add the options of where a coordinator is handed to: they become one argument, `cluster`.

    It is a `sweep.clusters.spec.ClusterSpec`, of which nothing is set if no option was given.
    """

    @functools.wraps(command)
    def command_with_cluster(cluster, **given):
        given["profile"] = cluster
        return command(cluster=_pop_cluster_options(given, (*_STARTING, *_REACHING)), **given)

    return _apply_click_options(command_with_cluster, (*_SUBMIT_OPTIONS, *_SCHEDULER_OPTIONS))


def run_options(command):
    """Add the options of all commands that compute: they become one argument, `options`.

    It is a dict of arguments of `sweep.campaign.coordinator.run`.
    """

    @functools.wraps(command)
    def command_with_run_options(cluster, max_time, checkpoint_every, **given):
        given["profile"] = cluster
        options = {
            "cluster": _pop_cluster_options(given, (*_STARTING, *_REACHING)),
            "max_time": remaining_max_time(max_time),
            "checkpoint_every": checkpoint_every,
        }
        return command(options=options, **given)

    return _apply_click_options(
        command_with_run_options,
        (*_RUN_OPTIONS, *_SCHEDULER_OPTIONS, max_time_option, checkpoint_option),
    )


def _pop_cluster_options(given, names):
    """The `ClusterSpec` of some of the options, which are taken out of `given`."""
    try:
        return ClusterSpec(**{name: given.pop(name) for name in names})
    except InputError as error:
        raise InputError(re.sub("`(\\w+)`", _option_of_field, str(error))) from None


def _option_of_field(match):
    """The option by which a field of a `ClusterSpec` is given, that a message has in backquotes."""
    name = match[1].replace("_", "-")
    return "--cluster" if name == "profile" else f"--{name}"


def _apply_click_options(command, options):
    for option in reversed(options):
        command = option(command)
    return command


def complete_study(ctx, param, incomplete):
    """Packaged studies and files, for a shell."""
    studies = importlib.resources.files("sweep").joinpath("studies").iterdir()
    names = sorted(file.name.removesuffix(".toml") for file in studies if ".toml" in file.name)
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*found, CompletionItem(incomplete, type="file")]


study_argument = click.argument("study", shell_complete=complete_study)
trust_option = click.option(
    "--trust-plugins",
    is_flag=True,
    help="Approve, for this time and from now on, the plugins that a store brings.",
)
store_argument = click.argument("store", type=click.Path())
optional_store = click.argument("store", required=False, type=click.Path())
_source_option = click.option(
    "--study", "source", metavar="STUDY", help="Also what its plugins add; a file, or a store."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def format_option(command):
    """Add ``--format`` and ``--json``: they become one argument, `form`."""

    @functools.wraps(command)
    def command_in_format(form, as_json, **given):
        if as_json and form not in (None, "json"):
            raise InputError(f"--json and --format {form} are two formats: give one", key="format")
        return command(form="json" if as_json else form or "text", **given)

    choice = click.Choice(["text", "json", "csv", "latex"])
    option = click.option(
        "--format",
        "form",
        type=choice,
        help="csv: a row for each result; latex: tables for a paper, by booktabs.  [default: text]",
    )
    return option(json_option(command_in_format))


experiment_option = click.option(
    "--experiment", "-e", multiple=True, metavar="NAME", help="Only this experiment; repeatable."
)
where_option = click.option(
    "--where", metavar="EXPR", help="Only runs for which it holds, as of sweep query."
)


def plugin_library_option(command):
    """Add the options of what a study's plugins add: they become one argument, `library`.

    It is a `sweep.plugins.registry.Library`, of what is built in if no study was named.
    """

    @functools.wraps(command)
    def command_with_library(source, trust_plugins, **given):
        named = source is not None
        library = (
            sweep.store.resolve_study_and_store(source, None, trust_plugins)[0].library
            if named
            else sweep.plugins.BUILT_IN
        )
        return command(library=library, **given)

    return _apply_click_options(command_with_library, (_source_option, trust_option))


def open_experiments_for_command(store, experiments=(), where=None):
    """The runs of a store that its study asks for, by experiment.

    Parameters
    ----------
    store : str
    experiments : sequence of str, optional
        Only these.
    where : str, optional
        Only the runs for which this expression holds, of the experiments that have some.

    Returns
    -------
    dict of str to xarray.Dataset

    Raises
    ------
    InputError
        If there is no such store or experiment, or if the expression holds for no run.
    """
    chosen = select_runs_for_command(store, experiments, where, none_is_refused=where is not None)
    return {name: runs for name, (runs, _) in chosen.items()}


def select_runs_for_command(store, experiments=(), expression=None, none_is_refused=True):
    """The runs of a store for which an expression holds, and how many there are; by experiment.

    Of the experiments that have some; `InputError` if none has.
    """
    chosen, refused = {}, []
    tree = sweep.open_study(store)
    for name in experiments:
        check_known(f"experiment of {store}", name, tree.children)
    for name, node in tree.children.items():
        dataset = node.to_dataset()
        asked = dataset["in_study"].values
        if (experiments and name not in experiments) or not asked.any():
            continue
        dataset = dataset if asked.all() else dataset.isel(run=asked)
        try:
            runs = dataset if expression is None else sweep.query(dataset, expression)
            chosen[name] = runs, dataset.sizes["run"]
        except InputError as error:
            refused.append((name, error))
    if not chosen and none_is_refused:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    return chosen


def echo_json(value):
    """Print a value as JSON; NaN as null, which JSON has not."""
    click.echo(json.dumps(value_for_json(value), indent=2, ensure_ascii=False))


def echo_json_answers(answers):
    """Print rows of an analysis as JSON: an object of their ``summary`` and ``rows``.

    Parameters
    ----------
    answers : dict of str to (list of str, list of dataclass instances)
        The sentences and the rows, by experiment.
    """
    echo_json({name: json_answer(*answer) for name, answer in answers.items()})


def json_answer(summary, rows):
    """Rows of an analysis with the sentences that sum them up, as a dictionary for `echo_json`."""
    return {"summary": summary, "rows": sweep.tables.table_rows_for_json(rows)}


def echo_csv(rows):
    """Print rows of an analysis as one CSV table.

    Parameters
    ----------
    rows : dict of str to list of dataclass instances
        By experiment, which is the first column. Dicts of values have a column each; what has no
        single value, as the points of a curve, is in JSON alone.
    """
    flat = []
    for experiment, of in rows.items():
        for row in sweep.tables.table_rows_for_json(of):
            cells = {"experiment": experiment}
            for key, value in row.items():
                inner = value.items() if isinstance(value, dict) else ()
                cells |= {f"{key}.{name}": one for name, one in inner} or {key: value}
            flat.append({k: v for k, v in cells.items() if not isinstance(v, list | dict)})
    writer = csv.DictWriter(
        text := io.StringIO(), list(dict.fromkeys(key for row in flat for key in row)),
        lineterminator="\n",
    )  # fmt: skip
    writer.writeheader()
    writer.writerows(flat)
    echo_document(text.getvalue().rstrip("\n"))


def echo_tables(form, tables, titles, label):
    """Print the tables of each experiment as text or LaTeX.

    Parameters
    ----------
    form : {"text", "latex"}
    tables : dict of str to list of Table
    titles : dict of str to str
        What stands above them, or begins their captions.
    label : str
        That of LaTeX, behind the experiment.
    """
    for name, of in tables.items():
        if form == "latex":
            echo_document(sweep.tables.tables_as_latex(of, titles[name], f"{name}-{label}") + "\n")
        else:
            click.echo(f"{titles[name]}\n{sweep.tables.tables_as_text(of)}\n")


def echo_document(text):
    """Print a text that is to be kept as it is: in a file or a pipe it is, to the letter.

    A terminal shows its control characters, as those of all else.
    """
    if sys.stdout.isatty():
        click.echo(text.replace("\r\n", "\n").expandtabs())
    else:
        click.echo(text, file=raw_terminal_stream(sys.stdout))


def progress_bar(length, label, **options):
    """A progress bar on standard error where that is a terminal; used as `click.progressbar`."""
    return click.progressbar(
        length=max(1, length),
        label=escape_control_characters(label),
        file=raw_terminal_stream(sys.stderr),  # it moves the cursor
        hidden=not sys.stderr.isatty(),
        **options,
    )


def save_experiment_plots(
    dataset, directory, name, ending=".png", kinds=None, skipped=None, drawn=None
):
    """Write an experiment's plots, as `sweep.plots.save_all`. `InputError` if that cannot be."""
    try:
        return sweep.plots.save_all(dataset, directory, name, ending, kinds, skipped, drawn)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}") from None


def print_warnings_before_work(tables, among=None):
    """Print what of experiments is unstable, or likely not to be answered, a line each on stderr.

    Parameters
    ----------
    tables : list of sweep.study.run_table.RunTable
    among : list of ndarray of bool, optional
        The runs of each that are to be computed; all unless given.
    """
    waiting = []
    for table, runs in zip(tables, among or [None] * len(tables), strict=True):
        for found in sweep.study.steps_beyond_stability_limit(table, runs):
            click.echo(str(found), err=True)
        if runs is None or runs.any():
            waiting.append(table)
    for line in sweep.campaign.warnings_before_work(waiting):
        click.echo(f"Warning: {line}", err=True)


def remaining_max_time(max_time):
    """What is left of ``--max-time``, which counts from the start of the process."""
    if max_time is None:
        return None

    return max(max_time - process_age(), 1e-3)
