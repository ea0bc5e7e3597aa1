"""What can be read in a figure."""


def words_of(figure):
    """Every text of a figure that is drawn, with the labels of its ticks."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    found = figure.findobj(lambda one: isinstance(one, Text) and one.get_visible())
    return [one.get_text() for one in found if one.get_text()]


def assert_plain(figure):
    """No text is a formula that nobody parses, and none a number that is none."""
    for text in words_of(figure):
        assert "$" not in text and "\\math" not in text, text
        assert "nan" not in text.split(), text
