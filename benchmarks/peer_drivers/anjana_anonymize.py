"""anjana: l-diversity by levels of hierarchies for whole columns, on a table in memory."""

import numpy as np
import pandas as pd
from _driver import serve, timed
from anjana.anonymity import l_diversity


def anonymize(request):
    columns, sensitive, ell = request["columns"], request["sensitive"], request["ell"]
    table = pd.read_parquet(request["table"], columns=[*columns, sensitive])

    def work():
        hierarchies = {
            name: {level: np.array(labels) for level, labels in enumerate(request["hierarchies"][name])}
            for name in columns
        }
        return l_diversity(table, [], list(columns), sensitive, ell, ell, request["suppressed"], hierarchies)

    made, seconds = timed(work)
    if made.empty:
        return {"problem": "finds nothing"}
    if request.get("output"):
        made[[*columns, sensitive]].astype(str).to_parquet(request["output"])
    return {**seconds, "released": len(made), "unchanged": made[columns].equals(table[columns])}


serve(anonymize)
