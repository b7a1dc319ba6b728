"""The rankings model as MLflow serves it: a table of pairs of items in, the chance that the first comes first out.

MLflow stores this file with the model (models from code) and the numerics beside it; nothing is pickled.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from predilect.models.rankings.model import RankingsModel


class ServedRankings(PythonModel):  # type: ignore[misc]
    """Loads the model folder and predicts."""

    def load_context(self, context: PythonModelContext) -> None:
        self.model = RankingsModel.load(Path(context.artifacts["model"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Columns `better` and `worse` → `probability` that better comes before worse; NaN for unknown items."""
        chance = self.model.win_probability(model_input["better"].to_numpy(), model_input["worse"].to_numpy())
        return pd.DataFrame({"probability": chance})


set_model(ServedRankings())
