"""Pure mathematics on arrays: no files, no clock, no logging, no hidden randomness.

The core sees count tables and distributions, never records. One concept per module:

* `distribution`: P(Q, S), from counts or probabilities
* `partition`: classes that cover the quasi-identifiers exactly once
* `diversity`, `linkage`: what a table shows, what several tables show together
* `worst_case`: Proposition 1
* `sample_size`: Algorithm 1's m and N, and their inverses
* `composition`: what t releases promise after linkage
* `generalize`: from P to a partition
* `frontier`: classes against records, exactly
"""
