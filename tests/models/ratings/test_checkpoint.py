"""A fit that goes on from a checkpoint ends with the same bits as one that was never interrupted."""

from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import ArtifactError
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.checkpoint import load_state, save_state
from predilect.models.ratings.fit import FitState

from .test_side_prior import SCALE, of_group, ratings


def fit(config: VBConfig, features: bool, **more: object) -> RatingsModel:
    users, items, value, group = ratings()
    return RatingsModel.fit(
        users, items, value, SCALE, config, user_ids=IdMap(np.arange(60)), item_ids=IdMap(np.arange(40)), seed=0,
        n_threads=1, user_features=of_group(group) if features else None, **more,
    )  # fmt: skip


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(("inference", "restarts"), [("mf", 1), ("mf", 3), ("gmf", 2)])
def test_resumed_from_any_sweep_the_fit_is_the_same(
    tmp_path: Path, inference: str, restarts: int, features: bool
) -> None:
    config = VBConfig(
        n_user_latents=2, n_item_latents=1, max_sweeps=12, tolerance=1e-4, inference=inference, restarts=restarts
    )
    folders: list[Path] = []

    def keep(state: FitState) -> None:
        folders.append(tmp_path / str(len(folders)))
        save_state(folders[-1], state)

    whole = fit(config, features, on_state=keep)
    whole.save(tmp_path / "whole")
    assert len(folders) > 10
    # The first sweeps, the last, and those about the change from one start to the next.
    for folder in [*folders[::4], *folders[-2:]]:
        resumed = fit(config, features, resume=load_state(folder, config))
        resumed.save(tmp_path / "resumed")
        assert (tmp_path / "resumed" / "arrays.npz").read_bytes() == (tmp_path / "whole" / "arrays.npz").read_bytes()
        assert resumed.converged == whole.converged


def test_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    config = VBConfig(n_user_latents=1, n_item_latents=1, max_sweeps=2)
    fit(config, features=False, on_state=lambda state: save_state(tmp_path / "one", state))
    stored = tmp_path / "one" / "arrays.npz"
    content = bytearray(stored.read_bytes())
    content[len(content) // 2] ^= 1
    stored.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        load_state(tmp_path / "one", config)
