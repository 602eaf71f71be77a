"""Options that several commands share, so that they are spelt and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Ell = Annotated[int, typer.Option("--ell", help="Sensitive values that must be left for everybody.")]
Delta = Annotated[float, typer.Option("--delta", help="Failure probability of one release, between 0 and 1.")]
Releases = Annotated[int, typer.Option("--releases", help="How many releases somebody may link together.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")]
