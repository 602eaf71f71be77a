"""The ledger: what all releases together no longer show (Theorem F).

A file of chained lines that admits releases one after the other and loses none of them in a crash.
"""
