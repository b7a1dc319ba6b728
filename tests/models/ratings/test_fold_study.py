"""Fold-in in the cold-start study, against fold-in by hand and against fitting again."""

import numpy as np
import pytest

from predilect.models.evaluation.cold_start import Job, Plan, cold_start
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.fold_study import FoldInPredict, Rows

from .build import SCALE, planted, rounded

N_USERS, N_ITEMS = 150, 50
USER_IDS = IdMap(np.array([f"u{n:03}" for n in range(N_USERS)]))
ITEM_IDS = IdMap(np.arange(N_ITEMS) * 3)


def test_cold_users_are_folded_into_a_model_of_the_others() -> None:
    data = rounded(planted(N_USERS, N_ITEMS, 2, 0.5, 0.5, seed=3)[0])
    ratings = data.value.astype(np.float32)
    test = np.random.default_rng(0).random(len(ratings)) < 0.3
    fitted: list[RatingsModel] = []

    def fit(rows: Rows) -> RatingsModel:
        used = np.unique(data.item[rows])
        users = np.unique(data.user[rows])
        fitted.append(
            RatingsModel.fit(
                np.searchsorted(users, data.user[rows]).astype(np.int32),
                np.searchsorted(used, data.item[rows]).astype(np.int32),
                ratings[rows],
                SCALE,
                VBConfig(n_user_latents=1, n_item_latents=1),
                user_ids=IdMap(USER_IDS.ids[users]),
                item_ids=IdMap(ITEM_IDS.ids[used]),
                seed=0,
                n_threads=1,
            )
        )
        return fitted[-1]

    plan = Plan(data.user, test, kappas=(1, 8), repeats=2, groups=3, seed=0)
    fold = FoldInPredict(data.user, data.item, ratings, USER_IDS, ITEM_IDS, plan.group_of, fit)
    curve = cold_start(plan, ratings, SCALE, fold, n_threads=2)
    assert len(fitted) == 1 + 3  # all ratings, and one a group
    fitting_again = cold_start(
        plan, ratings, SCALE,
        lambda train, rows: fit(train).predict_ids(USER_IDS.ids[data.user[rows]], ITEM_IDS.ids[data.item[rows]]).mean,
    )  # fmt: skip
    assert curve["full_mae"] == fitting_again["full_mae"]
    np.testing.assert_allclose(curve["mae"], fitting_again["mae"], rtol=0.15)
    assert curve["mae"][1] < 0.7 * curve["mae"][0]

    train, rows = plan.rows(Job(8, 1, 2))
    cold = plan.group_of[data.user] == 2
    model = fit(train[~cold[train]])
    assert not set(USER_IDS.ids[np.unique(data.user[rows])]) & set(model.user_ids.ids)
    found = fold(train, rows)
    for user in np.unique(data.user[rows])[:5]:
        kept = train[data.user[train] == user]
        assert len(kept) <= 8
        folded = model.fold_in(ITEM_IDS.ids[data.item[kept]], ratings[kept])
        mine = data.user[rows] == user
        assert found[mine] == pytest.approx(folded.predict_ids(ITEM_IDS.ids[data.item[rows[mine]]]).mean, abs=1e-5)
