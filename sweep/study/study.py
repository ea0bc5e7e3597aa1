"""Studies, which are written in Python or as TOML files."""

import dataclasses
import difflib
import importlib.resources
import inspect
import os
import reprlib
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

import sweep
from integrators.errors import InputError
from integrators.html import html_table
from sweep.errors import CannotUnite, StudyError, noted
from sweep.plugins.loader import Plugin, read_plugin_source
from sweep.plugins.registry import Library, read_plugins_of_study, unite_libraries
from sweep.study import model
from sweep.study.experiment import ResolvedExperiment, unite_experiments
from sweep.study.resolve import resolve_study
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.study_limits import MOST_TEXT
from sweep.study.toml import (
    StudyText,
    as_written,
    parse_toml,
    text_with_experiments,
    write_study_text,
)
from sweep.text import format_table, read_regular_file

SHOWN = ("experiment", "system", "integrators", "sizes", "starts", "duration", "runs")
OF_TIME = ("duration", "samples", "reference")  # keys in which all tables of an experiment agree


class _Function:
    """A method that is the function of its name in `sweep`, whose first parameter is the study."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, study: object, owner: type) -> Any:
        return getattr(sweep, self._name).__get__(study, owner)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Study:
    """A valid study; `load_study` reads one from a file.

    Parameters
    ----------
    name : str
    experiments : sequence of Experiment
        As attributes, a tuple of `sweep.study.experiment.ResolvedExperiment`.
    description : str, optional
    plugins : sequence of (str, Path or what `sweep.python_method` returns), optional
        Files or modules with systems, integrators, observables and plots that the study can use,
        or systems and integrators in Python.
    directory : str or Path, optional
        Directory that plugins and files of initial states are relative to.
    system, integrators, initial_condition, duration, samples, step_size, tolerance, parameters, \
scan, zip, exclude, record, statistics, reference, repeat, max_steps, time_unit : optional
        In the place of experiments, the keys of a single one, which has the name of the study; see
        `Experiment`.

    Raises
    ------
    StudyError
        If the study is not valid. The message lists every problem, with its place and what was
        expected.

    Examples
    --------
    >>> study = sweep.Study(
    ...     "order", system="spherical_pendulum_chain", integrators=["variational", "rk4"],
    ...     initial_condition="lee", step_size=[0.01, 0.005], duration=2.0, samples=10,
    ... )                                                                   # doctest: +SKIP
    >>> study.run("order.zarr")                                             # doctest: +SKIP
    """

    name: str
    experiments: tuple[ResolvedExperiment, ...]
    description: str
    text: str  # as TOML; generated for a study that is built in Python
    library: Library  # the names that the study can use, including those of its plugins

    @overload
    def __init__(
        self,
        name: str,
        experiments: Sequence[model.Experiment],
        description: str = "",
        plugins: Sequence[object] = (),
        directory: str | Path = ".",
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        plugins: Sequence[object] = (),
        directory: str | Path = ".",
        **keys: Unpack[model.ExperimentKeys],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        experiments: Sequence[model.Experiment] = (),
        description: str = "",
        plugins: Sequence[object] = (),
        directory: str | Path = ".",
        **keys: Any,
    ) -> None:
        if keys and experiments:
            raise StudyError(
                f"study {name!r}: expected experiments, or the keys of a single one: the key "
                f"{next(iter(keys))!r} belongs to a sweep.Experiment"
            )
        own = [model.Experiment(name=name, **keys)] if keys else experiments
        if isinstance(own, model.Experiment):
            raise StudyError(f"study {name!r}: expected a list of experiments, got one")
        for one in own:
            if not isinstance(one, model.Experiment):
                raise StudyError(
                    f"study {name!r}: expected each experiment as a sweep.Experiment, got "
                    f"{reprlib.repr(one)}"
                )
        top = {"format": model.FORMAT, "name": name, "description": description}
        given = [(one, model.plugin_of(one)) for one in plugins]
        written = [plugin for _, plugin in given if plugin is not None]
        written += [plugin for one in own for plugin in one._plugins]
        files: Any = [one for one, plugin in given if plugin is None]
        if names := [*as_written(files), *dict.fromkeys(plugin.name for plugin in written)]:
            top["plugins"] = names
        tables = [one.model_dump(exclude_unset=True, warnings=False) for one in own]
        data = top | {"experiment": tables}
        known = _all_plugins(name, files, written, Path(directory)) if written else None
        source = StudyText(f"study {name!r}", data, directory=Path(directory), plugins=known)
        vars(self).update(resolve_study(source), text=write_study_text(top, tables))

    @classmethod
    def of(cls, **fields: Any) -> "Study":
        """The study of experiments that are resolved already, by its fields."""
        made = object.__new__(cls)
        vars(made).update(fields)
        return made

    def replaced(self, **fields: Any) -> "Study":
        """The study with other values of some fields."""
        return Study.of(**vars(self) | fields)

    if TYPE_CHECKING:
        plan = sweep.plan
        run = sweep.run
        submit = sweep.submit
        recommend = sweep.recommend
    else:
        plan, run, submit, recommend = _Function(), _Function(), _Function(), _Function()

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that it names."""
        return self.library.plugins

    def toml(self) -> str:
        """The study as TOML text, which `load_study` can read from a file."""
        return self.text

    def check(self) -> list[RunTable]:
        """The run table of each experiment, as `sweep.check` returns it.

        Returns
        -------
        list of sweep.study.run_table.RunTable
        """
        return sweep.check(self).tables

    def _rows(self) -> list[list[str]]:
        return [
            [
                own.name,
                own.system,
                ", ".join(entry.label for entry in own.integrators),
                _sizes_in_words(own),
                f"{sum(condition.size for condition in own.initial_conditions):,}",
                f"{own.duration:g}",
                f"{expand_experiment(own).size:,}",
            ]
            for own in self.experiments
        ]

    @property
    def _title(self) -> str:
        return f"Study {self.name}{f': {self.description}' if self.description else ''}"

    def __str__(self) -> str:
        return f"{self._title}\n{format_table(SHOWN, self._rows())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(SHOWN, self._rows(), self._title)


_own = [*inspect.signature(Study.__init__).parameters.values()][1:-1]
_keys = [*inspect.signature(model.Experiment).parameters.values()][1:]  # which notebooks complete
_study: Any = Study
_study.__signature__ = inspect.Signature([*_own, *(key.replace(default=None) for key in _keys)])


def _all_plugins(
    study: str, files: Sequence[str | Path], written: Sequence[Plugin], directory: Path
) -> dict[str, Plugin]:
    """The plugins of a study, of its files and written from functions, by name."""
    found: dict[str, Plugin] = {}
    try:
        read = [read_plugin_source(str(name), directory) for name in files]
    except InputError as error:
        raise StudyError(f"study {study!r}: plugins: {error}") from None
    for plugin in (*read, *written):
        if found.setdefault(plugin.name, plugin).hash != plugin.hash:
            raise StudyError(
                f"study {study!r}: plugins: there are two of the name {plugin.name!r}, which "
                "differ; expected a name of its own for each"
            )
    return found


def _sizes_in_words(experiment: ResolvedExperiment) -> str:
    """Ranges of the step sizes and tolerances of an experiment's integrators."""
    steps = [own for entry in experiment.integrators for own in experiment.steps_of(entry)]
    words = []
    for name, sizes in zip(("step", "tolerance"), np.transpose(steps), strict=True):
        if len(known := sizes[~np.isnan(sizes)]):
            ends = dict.fromkeys((known.min(), known.max()))
            words.append(f"{name} {' – '.join(f'{end:g}' for end in ends)}")
    return ", ".join(words)


def unite_studies(
    studies: Sequence[Study], whose: tuple[str, str] = ("one has", "another")
) -> Study:
    """Unite studies of the same name into one with all their runs.

    Parameters
    ----------
    studies : sequence of Study
        Studies in which experiments of the same name have the same time axis and the same shared
        settings.
    whose : tuple of str
        How messages name the first and a later study.

    Returns
    -------
    Study

    Raises
    ------
    CannotUnite
        If a label has two meanings, a parameter is scanned in one study and not in another, or
        plugins of one name differ.
    """
    experiments: dict[str, list[ResolvedExperiment]] = {}
    for experiment in (experiment for study in studies for experiment in study.experiments):
        parts = experiments.setdefault(experiment.name, [])
        parts += [part for part in experiment.grids if part not in parts]
    united = []
    for name, parts in experiments.items():
        try:
            united.append(unite_experiments(parts, whose))
        except CannotUnite as error:
            raise CannotUnite(f"experiment {name!r}: {error}") from None
    return studies[0].replaced(
        experiments=tuple(united),
        description=next((s.description for s in studies if s.description), ""),
        text=_united_text(studies),
        library=unite_libraries([study.library for study in studies]),
    )


def _united_text(studies: Sequence[Study]) -> str:
    """The text of the first study, followed by tables of the others that it does not have.

    If defaults or plugins differ, all tables are written again, each with its defaults.
    """
    written = {study.text: tomllib.loads(study.text) for study in studies}
    first = written[studies[0].text]
    heads = [(one.get("defaults"), one.get("plugins")) for one in written.values()]
    shared = heads.count(heads[0]) == len(heads)
    tables: list[dict[str, Any]] = []
    of_name: dict[str, dict[str, Any]] = {}
    for study in {study.text: study for study in studies}.values():
        for table in written[study.text]["experiment"] if shared else _whole_tables(study):
            known = of_name.setdefault(table["name"], table)
            if table.get("time_unit") == known.get("time_unit"):  # a store may have made it longer
                kept = {key: of for key, of in table.items() if key not in OF_TIME}
                table = kept | {key: known[key] for key in OF_TIME if key in known}
            if table not in tables:
                tables.append(table)
    if shared:
        more = [table for table in tables if table not in first["experiment"]]
        return text_with_experiments(studies[0].text, more)
    head = {key: of for key, of in first.items() if key not in ("experiment", "defaults")}
    if plugins := dict.fromkeys(
        name for one in written.values() for name in one.get("plugins", ())
    ):
        head["plugins"] = list(plugins)
    return write_study_text(head, tables)


def _whole_tables(study: Study) -> Iterator[dict[str, Any]]:
    """The tables of a study's experiments, each with the defaults that it uses."""
    written = tomllib.loads(study.text)
    grids = {experiment.name: iter(experiment.grids) for experiment in study.experiments}
    for table in written["experiment"]:
        used = {
            "tolerance" if entry.adaptive else "step_size"
            for entry in next(grids[table["name"]]).integrators
            if (entry.tolerances if entry.adaptive else entry.step_sizes) is None
        }
        unused = {"tolerance", "step_size"} - used
        defaults = {key: of for key, of in written.get("defaults", {}).items() if key not in unused}
        yield defaults | table


def parse_study(
    text: str,
    source: str = "study",
    directory: str | Path = ".",
    plugins: "dict[str, Plugin] | None" = None,
    kept: object = None,
) -> Study:
    """Read a study from its text.

    Parameters
    ----------
    text : str
        TOML text in format 1.
    source : str
        The name of the text, for messages.
    directory : str or Path, optional
        Directory that files of initial states are relative to: that of the study's file, or the
        current directory for a text or a packaged study.
    plugins : dict of str to sweep.plugins.loader.Plugin, optional
        All plugins that the study can name; by default they are read from files and run.
    kept : str, Path or Store, optional
        A store that was made with the study. It keeps initial states that come from other stores,
        which may no longer exist.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If the study is not valid. The message lists every problem, with its place and what was
        expected.
    """
    read = resolve_study(parse_toml(text, source, directory, plugins=plugins, kept=kept))
    return Study.of(**read, text=text)


def load_study_file(study: str | Path | Study, kept: object = None) -> Study:
    """Read a study from a file, or a packaged study by its name; a file takes precedence.

    Parameters
    ----------
    study : str, Path or Study
        A `Study` is returned unchanged.
    kept
        As in `parse_study`.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If there is no such study, the file cannot be read, or the study is not valid.
    """
    if isinstance(study, Study):
        return study
    text, source, directory = _text_of_study(study)
    return parse_study(text, source, directory, kept=kept)


def plugins_of_study(study: str | Path | Study) -> tuple[Plugin, ...]:
    """Read the source of the plugins that a study's file names, without running it.

    Parameters
    ----------
    study : str or Path
        As in `load_study_file`.

    Returns
    -------
    tuple of sweep.plugins.loader.Plugin
    """
    if isinstance(study, Study):
        return study.library.plugins
    text, source, directory = _text_of_study(study)
    read = parse_toml(text, source, directory)
    given, problems = model.read_table(model.StudyTable, read.data)
    names = () if given["plugins"] is model.FAILED else given["plugins"]
    plugins: tuple[Plugin, ...] = ()
    with noted(problems, "plugins"):
        plugins = read_plugins_of_study(names, read.directory)
    if wrong := [one for one in problems if one.path[:1] == ("plugins",)]:
        raise StudyError(*map(read.explain, wrong))
    return plugins


def _text_of_study(study: str | Path) -> tuple[str, str, str | Path]:
    """Text, name and base directory of a study from a file or a packaged one."""
    if not isinstance(study, str | os.PathLike):
        raise StudyError(
            "expected a study, the path of its file or the name of a packaged one, got "
            f"{reprlib.repr(study)}"
        )
    path, shelf = Path(study), _packaged_files()
    try:
        data = read_regular_file(path, MOST_TEXT, "a study")
        return _decode_study_text(data, str(study)), str(study), path.parent
    except OSError as error:
        problem = error
    if not isinstance(problem, FileNotFoundError | IsADirectoryError):
        raise StudyError(f"{study}: cannot be read: {problem.strerror}")
    if str(study) in shelf:
        file = shelf[str(study)]
        return _decode_study_text(file.read_bytes(), file.name), file.name, "."
    if isinstance(problem, IsADirectoryError):
        raise StudyError(f"{study}: is a directory; expected a study file")
    beside = {file.stem: str(file) for file in path.parent.glob("*.toml")}
    near = difflib.get_close_matches(path.stem, [*beside, *shelf], n=1)
    meant = (
        f"Did you mean {beside.get(*near, *near)!r}?" if near else "`sweep ls studies` lists those"
    )
    raise StudyError(f"{study}: there is no such file, and no packaged study of that name. {meant}")


def packaged_study_names() -> tuple[str, ...]:
    """Names of the packaged studies, in alphabetical order."""
    return tuple(_packaged_files())


def _packaged_files() -> dict[str, Traversable]:
    folder = importlib.resources.files("sweep").joinpath("studies")
    files = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def _decode_study_text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise StudyError(f"{name}:{line}: is not UTF-8 text") from None
