"""`sweep guide`: the guide in the terminal, where there is no browser."""

import click

from sweep import guide
from sweep.cli.common import echo_document, echo_json, json_option


@click.command("guide")
@click.argument(
    "topic",
    required=False,
    shell_complete=lambda ctx, param, word: [one for one in guide.TOPICS if one.startswith(word)],
)
@json_option
def command(topic: str | None, as_json: bool) -> None:
    """List the topics of the guide, or print the text of TOPIC.

    \b
    Example:
      sweep guide orders
      sweep guide study | less
    """
    if topic is not None:
        if as_json:
            echo_json({"topic": topic, "text": guide.text(topic)})
            return
        echo_document(guide.text(topic).rstrip())
        return
    titles = guide.topics()
    if as_json:
        echo_json(titles)
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")
    click.echo("\nTo read one: sweep guide TOPIC")
