"""Files: what every file format shares.

Atomic writing, sealed canonical JSON, how CSV files are written, keys and signatures. Nothing in here knows
what a plan or a release is.
"""

from elldelta.files.atomic import (
    MOST_TEXT,
    AtomicFiles,
    check_writable,
    folders_to_disk,
    loaded,
    no_file,
    read_bytes,
    read_text,
    read_whole,
    remove,
    to_disk,
    unreadable,
    unwritable,
)
from elldelta.files.csv_format import (
    CsvFormat,
    CsvHeader,
    damaged_csv,
    read_header,
    recount,
    transcode,
    wrong_encoding,
)
from elldelta.files.number_columns import NumberColumn
from elldelta.files.records import MALFORMED, MisfitError, dotted, fields_of, record_from, whole_numbers_of
from elldelta.files.sealed_json import (
    as_bytes,
    canonical_json,
    canonical_parts,
    changed,
    check_format,
    digest,
    digest_of_parts,
    is_digest,
    json_object,
    members,
    read_json,
    seal,
    sealed_bytes,
    skeleton,
    unseal,
    unsealed_record,
)
from elldelta.files.signatures import (
    ALGORITHM,
    PrivateKey,
    PublicKey,
    TrustedKeys,
    damaged_signature,
    holds,
    read_private_key,
    read_public_keys,
    sign,
    trusted,
    write_key,
    write_key_pair,
)
from elldelta.files.temporary import STAGED, create, engine_name, give_up, journaled_name, remove_left
