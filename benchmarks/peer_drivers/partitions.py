"""Many tables in one process: the classes that anonypyx's Mondrian or anjana's l-diversity makes of each.

Request: `tool`, `jobs` (for each a table of positions as .npy, the sensitive value in its last column; k,
ell, and where to write), `sizes` of the columns' domains, for anonypyx which columns are `categories`, for
anjana `levels` (per column the widths of its levels) and `suppressed`. A job's output is an .npz: the class
of every record, -1 for those left out, and per column which positions every class names.
"""

import time

import numpy as np
import pandas as pd
from _driver import serve


def work(request):
    make = {"anonypyx": mondrian, "anjana": recoded}[request["tool"]]
    answers = []
    for job in request["jobs"]:
        rows = np.load(job["table"])
        start = time.process_time()
        try:
            class_of, named = make(rows, job, request)
        except Exception as error:  # noqa: BLE001 (what a peer cannot do is a result)
            answers.append({"problem": type(error).__name__})
            continue
        answers.append({"seconds": time.process_time() - start})
        np.savez(
            job["output"], class_of=class_of, **{f"q{column}": each for column, each in enumerate(named)}
        )
    return {"answers": answers}


def mondrian(rows, job, request):
    """Columns of categories are split into sets, others at their median into ranges."""
    import anonypyx

    columns = [f"q{number}" for number in range(rows.shape[1] - 1)]
    table = pd.DataFrame(rows, columns=[*columns, "value"])
    for name, is_category in zip([*columns, "value"], [*request["categories"], True], strict=True):
        if is_category:
            table[name] = table[name].astype("category")
    maker = anonypyx.Anonymiser(
        table, k=job["k"], l=job["ell"], feature_columns=columns, sensitive_column="value"
    )
    classes = maker.algorithm.partition(maker.parameters)
    class_of = np.full(len(rows), -1)
    named = [np.zeros((len(classes), size), dtype=bool) for size in request["sizes"]]
    for number, members in enumerate(classes):
        class_of[members] = number
        for column, positions in enumerate(named):
            found = rows[members, column]
            if request["categories"][column]:
                positions[number, found] = True
            else:
                positions[number, found.min() : found.max() + 1] = True
    return class_of, named


def recoded(rows, job, request):
    """Levels of whole columns; a level's labels are ranges of positions."""
    from anjana.anonymity import l_diversity

    columns = [f"q{number}" for number in range(rows.shape[1] - 1)]
    hierarchies = {
        name: {
            level: np.array([_label(place, width, size) for place in range(size)])
            for level, width in enumerate(widths)
        }
        for name, widths, size in zip(columns, request["levels"], request["sizes"], strict=True)
    }
    table = pd.DataFrame({name: hierarchies[name][0][rows[:, number]] for number, name in enumerate(columns)})
    table["value"] = rows[:, -1].astype(str)
    table["row"] = np.arange(len(rows))
    made = l_diversity(table, [], columns, "value", job["k"], job["ell"], request["suppressed"], hierarchies)
    if made.empty:
        raise ValueError("nothing is left")
    ends = np.concatenate(
        [made[name].str.split("-", expand=True).to_numpy(dtype=np.int64) for name in columns], axis=1
    )
    boxes, number = np.unique(ends, axis=0, return_inverse=True)
    class_of = np.full(len(rows), -1)
    class_of[made["row"].to_numpy()] = number.reshape(-1)
    named = [
        (np.arange(size) >= boxes[:, [2 * column]]) & (np.arange(size) <= boxes[:, [2 * column + 1]])
        for column, size in enumerate(request["sizes"])
    ]
    return class_of, named


def _label(place, width, size):
    low = place - place % width
    return f"{low}-{min(low + width, size) - 1}"


serve(work)
