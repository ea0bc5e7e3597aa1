"""The runs that a study asks for, as `sweep.check` tabulates them and as stores keep them."""

from pathlib import Path

import numpy as np
from study_text import one_experiment

import sweep


def write(text, directory="."):
    """Write a study's file ``s.toml``; its path."""
    file = Path(directory, "s.toml")
    file.write_text(text)
    return file


def tables_of(text, directory="."):
    """The runs of each experiment of a text, as data frames."""
    return [table.to_dataframe() for table in sweep.check(write(text, directory))[1]]


def table_of(**changes):
    """The runs of `one_experiment`, as a data frame; its file is in the current directory."""
    (table,) = tables_of(one_experiment(**changes))
    return table


PACKAGED = {
    file.name.removesuffix(".toml"): file.read_text()
    for file in sorted(Path(sweep.__file__).with_name("studies").glob("*.toml"))
}
LITTLE = {"record": '["energy"]', "statistics": '"none"'}


def many_experiments(settings, **shared):
    """Text of a study with `one_experiment` for each name and changes in a dict."""
    texts = [
        one_experiment(**LITTLE | shared | changes, name=f'"{name}"')
        for name, changes in settings.items()
    ]
    return texts[0] + "".join("[[experiment]]\n" + text.partition("]]\n")[2] for text in texts[1:])


def stored(text, cluster, directory="."):
    """Run a study, written to a directory, into ``s.zarr`` there; its experiments by name."""
    path = Path(directory, "s.zarr")
    assert sweep.run(write(text, directory), path, cluster).complete
    return {name: group.to_dataset() for name, group in sweep.open_study(path).children.items()}


def runs_to_compute(text, store):
    """How many runs of each experiment of a study a store lacks, as `sweep.plan` says."""
    frame = sweep.plan(write(text), store).to_dataframe()
    return dict(zip(frame["experiment"], frame["runs"], strict=True))


def pairs(table, *columns):
    """The combinations of values of some columns of a table or dataset, as a set."""
    return set(zip(*(np.asarray(table[name]).tolist() for name in columns), strict=True))
