"""Pure mathematics on arrays: no files, no clock, no logging, no hidden randomness.

The core sees count tables and distributions, never records. One concept per module:

* `distribution`: P(Q, S), from counts or probabilities, dense or sparse
* `partition`, `box_tree`: classes that cover the quasi-identifiers exactly once
* `diversity`, `linkage`, `exposure`: what a table shows, what several tables show together
* `sample_size`, `occupancy`, `accountant`: records to wait for, and what releases promise after linkage
* `generalize`: from P to a partition
* `promises`, `closeness`, `moving`, `ledger_state`: what an owner may publish
"""
