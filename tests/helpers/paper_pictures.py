"""What the pictures of a paper are drawn from, of short runs."""

from study_text import study_of

import sweep
from sweep.papers import PAPERS


def short_results(paper, shorter, folder, cluster):
    """Run tables by study and experiment, of all that the pictures of a paper need.

    Parameters
    ----------
    paper : str
    shorter : dict of str to str
        What its packaged studies say, and what is run instead.
    """
    found, left = {}, set(shorter)
    pictures = PAPERS[paper].model_copy(update={"claims": ()})
    for name, experiments in pictures.experiments().items():
        text = sweep.load_study(name).toml()
        left -= {packaged for packaged in shorter if packaged in text}
        for packaged, short in shorter.items():
            text = text.replace(packaged, short)
        study = study_of(text)
        needed = tuple(one for one in study.experiments if one.name in experiments)
        store = folder / f"{name}.zarr"
        assert sweep.run(study.replaced(experiments=needed), store, cluster).complete
        found[name] = {key: node.to_dataset() for key, node in sweep.open_study(store).items()}
    assert not left
    return found
