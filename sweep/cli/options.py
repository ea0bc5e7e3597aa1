"""Click commands made from functions, and the options that several commands share.

`command` turns a function into a command. The function's docstring is the help text, and the
section ``Options:`` at its end lists options as click prints them: names, placeholder of the value,
description. Types and defaults are taken from the signature. Each parameter of the function is

- an option, if the section ``Options:`` lists it;
- a shared option or argument, if `Shared` has a field of that name;
- a value computed from other options, if `COMPUTED` has a function of that name: the command gets
  the options that this function's parameters stand for, and passes on what the function returns;
- otherwise an argument.
"""

import functools
import importlib.resources
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

import sweep
from integrators.errors import InputError
from sweep.cli.selected_runs import open_experiments
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.stop_request import process_age

if TYPE_CHECKING:
    import xarray as xr

    from sweep.plugins.registry import Library

MOST_SECONDS = 1e9  # longest duration that is accepted: system calls cannot wait much longer
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Choice(click.Choice[str]):
    """One of some words; a message lists them on one line, as click's tabs are shown as escapes."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """What follows ``Missing argument``."""
        return f"Choose from {', '.join(self.choices)}"


class Duration(click.ParamType[float, str | float]):
    """A duration of at most 30 years, in seconds or with units: 3600, 90s, 55m, 2h, 1h30m."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert to seconds; fail unless the duration is positive and at most `MOST_SECONDS`."""
        if isinstance(value, float):
            return value
        number = r"(\d+\.?\d*|\.\d+)"
        parts = re.fullmatch("".join(rf"(?:{number}{unit})?" for unit in UNITS), value)
        try:
            seconds = float(value)
        except ValueError:
            counts = parts.groups(default="0") if parts else ()
            seconds = sum(float(n) * unit for n, unit in zip(counts, UNITS.values(), strict=False))
        if not 0.0 < seconds <= MOST_SECONDS:
            self.fail(f"{value!r} is no time; expected seconds, or a time like 90s, 55m or 1h30m")
        return seconds


def packaged_studies() -> dict[str, Traversable]:
    """Files of the packaged studies by name, in alphabetical order."""
    files = importlib.resources.files("sweep").joinpath("studies").iterdir()
    found = {file.name.removesuffix(".toml"): file for file in files if ".toml" in file.name}
    return dict(sorted(found.items()))


def complete_study(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a STUDY argument in the shell: packaged studies and files."""
    packaged = [CompletionItem(name) for name in packaged_studies() if name.startswith(incomplete)]
    return [*packaged, CompletionItem(incomplete, type="file")]


class ClickSettings:
    """Settings of a click parameter, as metadata of an `Annotated` type."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


# Types that several commands use.
Seconds = Annotated[float, ClickSettings(type=Duration())]
Count = Annotated[int, ClickSettings(type=click.IntRange(min=1))]
Files = Annotated[tuple[str, ...], ClickSettings(type=click.Path())]
OptionalStore = Annotated[str | None, ClickSettings(type=click.Path())]

# Parameters by option, where the names differ by more than a plural s.
RENAMED = {"cluster": "profile", "json": "as_json", "format": "layout", "study": "study_file"}
RENAMED |= {"all": "everything", "body": "bodies", "status": "among"}


@dataclass(kw_only=True)
class Shared:
    """Options and arguments of several commands.

    Options:
      -e, --experiment NAME  Use only this experiment; repeatable.
      --where EXPR  Use only runs that satisfy this expression (see sweep query --help).
      --at [end|sup]  Take the error at the end of each run, or its supremum over time.
      --max-time TIME  Stop before this much time has passed: 3600 (seconds), 55m, 2h, 1h30m.
      --checkpoint-every TIME  Time between the checkpoints of a task. If a worker is killed,
          its task resumes from the last checkpoint.  [default: 30.0]
      --budget TIME  CPU time that may be spent on added runs: 600 (seconds), 10m, 2h.
          [default: 10m]
      --summary/--no-summary  Print tables and write plots at the end.
      --trust-plugins  Approve the plugins kept in the store, now and for later commands.
      --json  Print JSON instead of text.
    """

    study: Annotated[str, ClickSettings(shell_complete=complete_study)]
    store: Annotated[str, ClickSettings(type=click.Path())]
    experiment: tuple[str, ...]
    where: str | None
    at: Literal["end", "sup"] = "end"
    max_time: Seconds | None
    checkpoint_every: Seconds = 30.0
    budget: Seconds = 600.0
    summary: bool = True
    trust_plugins: bool
    as_json: bool


def cluster(profile: str | None, workers: Count | None, scheduler: str | None) -> ClusterSpec:
    """Where to compute.

    Options:
      --cluster PROFILE  Where to start workers: local (the default of sweep run), slurm, pbs, lsf,
          sge, kubernetes, or a profile from geosweep.clusters in Dask's configuration.
      --workers N  Number of workers to start. By default, the number that the profile sets;
          locally, one per core, but no more than there are tasks.
      --scheduler ADDRESS  Use a running Dask scheduler at this address: tcp://host:8786.
    """
    return ClusterSpec(profile, workers, scheduler)


def run_options(
    cluster: ClusterSpec, max_time: float | None, checkpoint_every: float
) -> dict[str, Any]:
    """Keyword arguments of `sweep.run` and of the other functions that compute runs."""
    time = remaining_max_time(max_time)
    return {"cluster": cluster, "max_time": time, "checkpoint_every": checkpoint_every}


def library(study_file: str | None, trust_plugins: bool) -> "Library | None":
    """Everything built in, and everything that the plugins of a study add; None without a study.

    Options:
      --study STUDY  Include the plugins of this study, which is a file or a store.
    """
    if study_file is None:
        return None
    study, _ = sweep.store.resolve_study_and_store(study_file, None, trust_plugins)
    found: Library = study.library
    return found


def datasets(store: str, experiment: tuple[str, ...], where: str | None) -> "dict[str, xr.Dataset]":
    """Run tables of a store by experiment, with the runs that satisfy an expression."""
    return open_experiments(store, experiment, where)


def output_format(layout: Literal["text", "json", "csv", "latex"] | None, as_json: bool) -> str:
    """The format of an answer.

    Options:
      --format [text|json|csv|latex]  Output format; csv has a row for each result, latex has
          tables for a paper, with booktabs.  [default: text]
    """
    if as_json and layout not in (None, "json"):
        raise InputError(f"--json contradicts --format {layout}: give one of them", key="format")
    return "json" if as_json else layout or "text"


COMPUTED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (cluster, run_options, library, datasets, output_format)
}


def remaining_max_time(max_time: float | None) -> float | None:
    """Seconds left of ``--max-time``, which counts from the start of the process."""
    return None if max_time is None else max(max_time - process_age(), 1e-3)


# --- commands --------------------------------------------------------------------------------


def command(function: Callable[..., None]) -> click.Command:
    """Decorator that makes a click command from a function; see the module's docstring."""

    @functools.wraps(function)
    def callback(**given: Any) -> None:
        _call(function, given)

    text, _, _ = (inspect.getdoc(function) or "").partition(OPTIONS)
    parameters = dict(_parameters(function))
    return click.Command(
        function.__name__, params=[*parameters.values()], help=text, callback=callback
    )


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, click.Parameter]]:
    """Names and click parameters for the parameters of a function, in their order."""
    documented = _documented_options(function)
    for name, (annotation, default) in _annotations(function).items():
        if name in COMPUTED:
            yield from _parameters(COMPUTED[name])
        elif name in SHARED and name not in documented and get_origin(annotation) is not Annotated:
            yield name, SHARED[name]
        else:
            settings = _settings_of_type(annotation)
            if default is not inspect.Parameter.empty:
                settings |= {"default": default, "required": False}
            if name in documented:
                names, metavar, text = documented[name]
                yield name, click.Option([*names, name], metavar=metavar, help=text, **settings)
            else:
                several = {"nargs": -1} if settings.pop("multiple", False) else {}
                yield name, click.Argument([name], **({"required": True} | several | settings))


def _call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with the values that click gives, computing those in `COMPUTED`."""
    return function(
        **{
            name: _call(COMPUTED[name], given) if name in COMPUTED else given[name]
            for name in _annotations(function)
        }
    )


def _annotations(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Annotations and defaults of a function's parameters by name.

    ``**given: Unpack[Fields]`` stands for a parameter for each field of the `TypedDict`.
    """
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        found[parameter.name] = parameter.annotation, parameter.default
        if parameter.kind is parameter.VAR_KEYWORD:
            del found[parameter.name]
            (fields,) = get_args(parameter.annotation)
            for name, annotation in inspect.get_annotations(fields).items():
                found[name] = annotation, parameter.empty
    return found


OPTIONS = "\nOptions:\n"


def _documented_options(
    documented: Callable[..., Any],
) -> dict[str, tuple[list[str], str | None, str]]:
    """Read the section ``Options:`` of a docstring.

    Returns
    -------
    dict of str to (list of str, str or None, str)
        By parameter: the option's names, the placeholder of its value (None for the default), and
        its description.
    """
    if __doc__ is None:
        raise InputError(
            "Python was started without docstrings, which define the options of commands; start it "
            "without -OO, and with PYTHONOPTIMIZE below 2"
        )
    found, known = {}, _annotations(documented)
    section = (inspect.getdoc(documented) or "").partition(OPTIONS)[2]
    for entry in filter(None, re.split(r"\n(?=  -)", section)):
        head, _, text = entry.strip().partition("  ")
        words = head.replace(",", "").split()
        names = [word for word in words if word.startswith("-")]
        name = names[-1].partition("/")[0].strip("-").replace("-", "_")
        metavar = " ".join(words[len(names) :]) or None
        (own, *_) = (one for one in (RENAMED.get(name), name, f"{name}s") if one in known)
        found[own] = names, metavar, " ".join(text.split())
    return found


def _settings_of_type(kind: Any) -> dict[str, Any]:
    """Settings of a click parameter that follow from an annotation."""
    if get_origin(kind) is Annotated:
        plain, *more = get_args(kind)
        settings = _settings_of_type(plain)
        for own in more:
            settings |= own.settings
        return settings
    if type(None) in get_args(kind):
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
        return {"required": False} | _settings_of_type(kind)
    if get_origin(kind) is tuple:
        first, *rest = get_args(kind)
        several = {"multiple": True} if rest == [...] else {"nargs": 1 + len(rest)}
        return _settings_of_type(first) | several
    if get_origin(kind) is Literal:
        return {"type": Choice(get_args(kind))}
    return {"is_flag": True} if kind is bool else {"type": kind}


SHARED: dict[str, click.Parameter] = {}
SHARED |= dict(_parameters(Shared))
