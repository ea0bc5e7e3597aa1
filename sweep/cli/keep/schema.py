"""`sweep schema`: print the JSON Schema of study files, for editors."""

import click

import sweep
from sweep.cli.options import command
from sweep.cli.output import echo_document, json_for_output, writing
from sweep.store.backends.places import require_local_path


@command
def schema(output: str | None) -> None:
    """Print the JSON Schema of study files, which editors use to complete and check them.

    The schema has all keys, the names of systems and integrators that are built in or installed,
    and their parameters and options. A study refers to its schema in its first line, as in files
    written by `sweep init`. `sweep check` also finds mistakes that involve several values.

    \b
    Example:
      sweep schema -o geosweep.schema.json

    Options:
      -o, --output FILE  Write the schema to FILE, and replace an existing file.
    """
    text = json_for_output(sweep.study.study_schema(), indent=1)
    if output is None:
        echo_document(text)
        return
    path = require_local_path(output)
    with writing(output):
        path.write_text(f"{text}\n", encoding="utf-8")
    click.echo(f"Wrote {output}. To use it, begin a study with the line: #:schema {output}")
