"""The clicks model as MLflow serves it: a table of contexts in, expected click probability and its uncertainty out.

MLflow stores this file with the model (models from code) and the numerics beside it; nothing is pickled.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from predilect.models.clicks import ClicksModel, FeatureColumns, scores
from predilect.models.errors import DataError


class ServedClicks(PythonModel):  # type: ignore[misc]
    """Loads the model folder and predicts."""

    def load_context(self, context: PythonModelContext) -> None:
        self.model = ClicksModel.load(Path(context.artifacts["model"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Context columns, and `user` and `group` where there are some → `mean` and `sd` of the click probability, and
        `upper`, the 95 % quantile of its predictive distribution."""
        encoder = self.model.encoder
        if encoder is None:
            raise DataError("The model has no encoder, so it cannot read tables; retrain it.")
        _, facts = encoder.features.to_arrays()
        columns = FeatureColumns(
            {name: model_input[name].fillna("").astype(str).tolist() for name in facts["texts"]},
            {name: model_input[name].astype(str).to_numpy(dtype=str) for name in facts["categories"]},
            {name: model_input[name].to_numpy(dtype=float) for name in facts["numbers"]},
        )
        ids = {
            name: model_input[name].astype(str).to_numpy(dtype=str) if name in model_input else None
            for name in ("user", "group")
        }
        design = encoder.encode(columns, lines=None if encoder.features.parts else np.zeros(len(model_input), int),
                                users=ids["user"], groups=ids["group"])  # fmt: skip
        normals = self.model.predict(design)
        points = scores.normal_points(64)
        mean, spread = scores.mean(normals, points), scores.ucbe(normals, points, 0.8413447460685429)
        return pd.DataFrame({"mean": mean, "sd": spread - mean, "upper": scores.uqp(normals, points)})


set_model(ServedClicks())
