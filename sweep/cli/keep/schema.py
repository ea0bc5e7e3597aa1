"""`sweep schema`: the JSON Schema of study files, for editors."""

import click

import sweep
from sweep.cli.options import command
from sweep.cli.output import echo_document, json_for_output, writing
from sweep.store.backends.places import require_local_path


@command
def schema(output: str | None) -> None:
    """Print the JSON Schema of study files, by which editors complete and check them.

    It knows all keys, the names of systems and integrators that are built in or installed, their
    parameters and options. A study names its schema in the first line, as `sweep init` writes it.
    `sweep check` also finds mistakes that involve several values.

    \b
    Example:
      sweep schema -o geosweep.schema.json

    Options:
      -o, --output FILE  Write it to FILE, replacing what is there.
    """
    text = json_for_output(sweep.study.study_schema(), indent=1)
    if output is None:
        echo_document(text)
        return
    path = require_local_path(output)
    with writing(output):
        path.write_text(f"{text}\n", encoding="utf-8")
    click.echo(f"Wrote {output}. A study names it in its first line: #:schema {output}")
