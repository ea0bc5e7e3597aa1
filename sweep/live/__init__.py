"""A page in a browser on this machine: how far stores are, and their answers, by `sweep serve`.

`server` listens and answers; `stores` opens stores, chooses runs and keeps answers; `views` makes
figures of answers, as JSON; `runs` tells of a single run. ``page.js`` draws.
"""
