"""The ledger: what all releases together no longer show (Theorem F).

A file of chained lines that admits releases one after the other and loses none of them in a crash; the same
lines and the same admission serve whoever keeps them elsewhere.
"""

from elldelta.ledger.admission import Admission, admit, check_line, check_owner, folded_owner
from elldelta.ledger.chain import (
    LedgerChain,
    check_plan,
    damaged,
    first_line,
    parse_chain,
    parse_line,
)
from elldelta.ledger.ledger import Ledger, OpenLedger, verify_ledger
from elldelta.ledger.lines import (
    LedgerEntry,
    LedgerHeader,
    SealedLine,
    VoidLine,
    line_bytes,
    new_nonce,
    sealed_lines,
)
from elldelta.ledger.state import Cells, UpdateSummary, read_update_summary
from elldelta.ledger.totals import LedgerSnapshot, LedgerTotals
from elldelta.ledger.updates import Revision, UpdatePolicy, check_updatable
