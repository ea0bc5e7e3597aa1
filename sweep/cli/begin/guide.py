"""`sweep guide`: print the guide in the terminal."""

from typing import Annotated

import click

from sweep import guide as pages
from sweep.cli.options import ClickSettings, command
from sweep.cli.output import echo, echo_document, echo_json


def _complete_topic(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    return [topic for topic in pages.TOPICS if topic.startswith(word)]


@command
def guide(
    topic: Annotated[str | None, ClickSettings(shell_complete=_complete_topic)], as_json: bool
) -> None:
    """List the topics of the guide, or print the text of TOPIC.

    \b
    Example:
      sweep guide tutorial
      sweep guide keys | less
    """
    if topic is None:
        titles = pages.topics()
        width = max(map(len, titles))
        lines = []
        for kind, topics in pages.KINDS.items():
            lines += [f"{kind}:", *(f"  {name:<{width}}  {titles[name]}" for name in topics), ""]
        echo(titles, "\n".join([*lines, "To read one: sweep guide TOPIC"]), as_json)
    elif as_json:
        echo_json({"topic": topic, "text": pages.text(topic)})
    else:
        echo_document(pages.text(topic).rstrip())
