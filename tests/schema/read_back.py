"""Labels of a column, read back through the grammar with which all releases are read."""

import numpy as np

from elldelta.schema.label_columns import rules_of, understand_column


def read_back(column, label):
    """The positions that a label names, as a mask over all positions; None if it cannot be understood."""
    singles = list(column.value_labels)
    understood = understand_column(column.name, [{label, *singles}], rules_of(column))
    code_of = understood.code_of
    if understood.meanings[code_of[label]].problem:
        return None
    named = understood.runs.mask(code_of[label])
    found = []
    for single in singles:
        own = understood.runs.mask(code_of[single])
        assert own.any()
        assert not (own & named).any() or not (own & ~named).any(), "a label cuts through a position"
        found.append(bool((own & named).any()))
    return np.array(found)
