"""The ratings model as MLflow serves it: a table of users and items in, means and standard deviations out.

MLflow stores this file with the model (models from code) and the numerics beside it; nothing is pickled.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from predilect.models.ratings.model import RatingsModel


class ServedRatings(PythonModel):  # type: ignore[misc]
    """Loads the model folder and predicts."""

    def load_context(self, context: PythonModelContext) -> None:
        self.model = RatingsModel.load(Path(context.artifacts["model"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Columns `user` and `item` → `mean` (within the scale) and `sd`; unknown ids get the prior's answer."""
        answer = self.model.predict_ids(model_input["user"].to_numpy(), model_input["item"].to_numpy())
        return pd.DataFrame({"mean": self.model.scale.clip(answer.mean), "sd": np.sqrt(answer.variance)})


set_model(ServedRatings())
