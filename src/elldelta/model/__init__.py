"""Models: counts of past records, which estimate P(Q, S).

Counting in an engine (`counting`; `persons` where people have several records), the counts themselves with
the account of every record (`counts`), the model with its file (`model`), models in a folder of regions
(`regions`), and adding models up (`merging`).
"""

from elldelta.model.counting import CountedTable, Encoding, ShowValues, UnknownPolicy, count
from elldelta.model.counts import Accounting, Counts, merge_counts
from elldelta.model.merging import merge_models
from elldelta.model.model import (
    Model,
    estimate,
    model_from_bytes,
    read_model,
    reordered,
    with_hierarchies,
    write_model,
)
from elldelta.model.noise import ADDS_UP, Protection, promise_to_the_past
from elldelta.model.past import Past
from elldelta.model.persons import check_person, count_persons, person_key
from elldelta.model.regions import (
    Region,
    RegionalModel,
    estimate_by_region,
    read_past,
    read_regions,
    split_model,
    write_regions,
)
from elldelta.model.rounding import rounded
