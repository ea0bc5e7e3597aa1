"""`sweep guide`: the guide in the terminal, for where no browser is."""

import click

from sweep import guide
from sweep.cli.common import echo_document


@click.command("guide")
@click.argument("topic", required=False)
def command(topic):
    """List the topics of the guide, or print the text of TOPIC.

    \b
    Example:
      sweep guide orders
      sweep guide study | less
    """
    if topic is not None:
        echo_document(guide.text(topic).rstrip())
        return
    titles = guide.topics()
    width = max(map(len, titles))
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")
    click.echo("\nTo read one: sweep guide TOPIC")
