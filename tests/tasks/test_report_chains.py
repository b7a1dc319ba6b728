"""The report's words on chains and features."""

from typing import Any

from predilect.tasks.report_chains import chains, features


def sampling(rhat: float) -> dict[str, Any]:
    return {
        "chains": 2, "sweeps": 4, "draws": 4, "noise_sd": [[0.9, 0.8, 0.8, 0.8], [0.7, 0.8, 0.9, 0.8]], "watched": 100,
        "noise_rhat": 1.0, "noise_ess": 50.0, "prediction_rhat_max": rhat, "prediction_rhat_median": 1.0,
        "prediction_ess_median": None, "prediction_ess_min": 3.0, "good_rhat": 1.05,
    }  # fmt: skip


def test_chains_that_agree_and_that_do_not() -> None:
    good, bad = chains({"sampling": sampling(1.01)}), chains({"sampling": sampling(1.3)})
    assert good is not None
    assert bad is not None
    assert "they agree" in good["says"]
    assert "R̂ reaches 1.300, above 1.05" in bad["says"]
    assert str(good["plot"]).startswith("<svg")
    assert chains({"sampling": None}) is None
    assert chains({}) is None


def test_features_come_by_weight_with_their_intervals() -> None:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    rows = [{"name": f"genre: <{k}>", "shift": around(-0.2), "spread": around(0.3)} for k in range(25)]
    groups = [{"name": "year", "sd": around(0.1)}, {"name": "genre", "sd": around(0.4)}]
    (side,) = features({"effects": {"items": {"groups": groups, "features": rows, "n_features": 30}}})
    assert side["name"] == "items"
    assert side["title"].startswith("genre: 0.4")
    assert len(side["rows"]) == 20
    assert side["more"] == 10
    assert side["rows"][0]["interval"] == "−0.30 … −0.10"
    assert features({}) == []
