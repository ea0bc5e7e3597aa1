"""The one exception for input that cannot be used."""

import difflib


class InputError(ValueError):
    """Input that cannot be used: says which value, what was expected and how to mend it.

    Parameters
    ----------
    message : str
        A sentence that names the value and what was expected.
    key : str, optional
        The parameter or option that the message is about, where there is one. A caller that
        knows the file it came from adds key path and line.
    """

    def __init__(self, message, key=None):
        super().__init__(message)
        self.key = key


def nearest(name, valid):
    """`` Did you mean 'x'?`` for the closest of `valid`, or a list of all of them."""
    valid = list(valid)
    close = difflib.get_close_matches(str(name), valid, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Valid: {', '.join(valid)}." if valid else ""


def check_known(kind, name, valid, key=None):
    """Raise `InputError` unless `name` is one of `valid`, with the nearest valid name."""
    if name not in valid:
        raise InputError(f"unknown {kind} {name!r}.{nearest(name, valid)}", key=key)
