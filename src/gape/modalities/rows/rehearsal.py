"""A made-up table on which audits try the survey, all four releases of it."""

import numpy as np

from gape.modalities.base import Rehearsal
from gape.modalities.rows.columns import Choices, Numbers
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.schema import Schema
from gape.modalities.rows.surveyed import SurveyedRows

_SCHEMA = Schema(
    {
        "age": Numbers(0, 99),
        "gain": Numbers(-5.0, 1e4, 1, missing=True),
        "kind": Choices(("a", "b", "c"), missing=True),
        "size": Numbers(0, 9),
    }
)
_RECORDS = 400


def made_up_survey() -> Rehearsal:
    """Return a survey of rows in which the kind follows the age."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, _RECORDS)
    gain, size = rng.integers(0, 9_000, _RECORDS), rng.integers(0, 10, _RECORDS)
    codes = np.stack([age, gain, age // 34, size], axis=1).astype(np.float64)
    one, other = (_SCHEMA.lines(np.array([row])) for row in ([7.0, 0.0, 1.0, 2.0], [90.0, np.nan, np.nan, 9.0]))
    survey = SurveyedRows(_SCHEMA)
    return Rehearsal(survey, survey.per_record, RowEmbedder(_SCHEMA), _SCHEMA.lines(codes), one, other)
