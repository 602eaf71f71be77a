"""pycanon: k-anonymity and l-diversity of a table in memory."""

import pandas as pd
from _driver import serve, timed
from pycanon import anonymity


def check(request):
    columns, sensitive = request["columns"], request["sensitive"]
    table = pd.read_parquet(request["table"], columns=[*columns, sensitive])
    k, k_seconds = timed(lambda: anonymity.k_anonymity(table, columns))
    ell, ell_seconds = timed(lambda: anonymity.l_diversity(table, columns, [sensitive]))
    both = {name: k_seconds[name] + ell_seconds[name] for name in k_seconds}
    return {"k": int(k), "ell": int(ell), **both, "ell_seconds": ell_seconds["seconds"]}


serve(check)
