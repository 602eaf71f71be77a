"""`elldelta worst-case`, `sample-size` and `figures`: the numbers of the paper, from its formulas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import FileError, ParameterError, counted
from elldelta.files import read_text
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@command("worst-case", example="worst-case --values 50 --ell 30 --releases 2")
def _worst_case(
    values: Annotated[int, Doc("Number of sensitive values there are.")],
    ell: Annotated[
        str,
        Doc("Diversity of the releases: one number, or one per release: 30,35,40."),
    ],
    releases: Annotated[int | None, Doc("How many releases are linked; 2 if --ell is one number.")] = None,
    json: options.Json = False,
) -> None:
    """How few values can be left when releases are linked that were each made diverse alone."""
    from elldelta.paper import worst_case

    ells = options.whole_numbers(ell, "--ell", "30 or --ell 30,35,40")
    result = worst_case(values, ells[0] if len(ells) == 1 else ells, releases)
    if json:
        output.print_json(result.to_dict())
        return
    shown = ", ".join(str(number) for number in result.ell)
    linked = counted(result.releases, "release")
    output.print_text(
        f"Linking {linked} that show {shown} of {counted(result.values, 'value')} per class",
        f"can leave as few as {result.diversity} for somebody who is in all of them.",
    )
    rows = [
        (str(number), str(len(kept)), _describe_missing(kept, result.values))
        for number, kept in enumerate(result.example, start=1)
    ]
    output.print_table("An example that attains it", ("release", "values shown", "values missing"), rows)


def _describe_missing(shown: tuple[int, ...], n_values: int) -> str:
    """The missing values as ranges: they are at most two runs by construction."""
    missing = sorted(set(range(n_values)) - set(shown))
    runs: list[list[int]] = []
    for value in missing:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in runs) or "none"


@command(
    "sample-size",
    example="sample-size --values 50 --quasi-identifiers 3000 --marginal geometric:0.95 "
    "--ell 10 --beta 0.01 --delta 0.01",
)
def _sample_size(
    quasi_identifiers: Annotated[int, Doc("Number of combinations of quasi-identifiers.")],
    ell: options.Ell,
    values: Annotated[int | None, Doc("Number of sensitive values there are.")] = None,
    marginal: Annotated[
        str,
        Doc("How the sensitive values are distributed: uniform, geometric:0.95."),
    ] = "uniform",
    marginal_file: Annotated[
        Path | None, Doc("A text file with one probability per line.", panel="Expert")
    ] = None,
    p: Annotated[
        float | None, Doc("Probability that ell cells of every class reach.", panel="Expert")
    ] = None,
    beta: Annotated[float | None, Doc("The same as a share of the largest p.", panel="Expert")] = None,
    delta: Annotated[float | None, Doc("Failure probability of one release.  [default: 0.01]")] = None,
    records: Annotated[int | None, Doc("Solve for delta: what do this many records promise?")] = None,
    eta: Annotated[
        float, Doc("An error of the distribution (total variation) the promise must survive.", panel="Expert")
    ] = 0.0,
    json: options.Json = False,
) -> None:
    """The records to wait for before publishing (the paper's Algorithm 1)."""
    from elldelta.paper import sample_size

    probabilities = _marginal(values, marginal, marginal_file)
    result = sample_size(
        probabilities, quasi_identifiers, ell, p=p, beta=beta, delta=delta, records=records, eta=eta
    )
    if json:
        output.print_json(result.to_dict())
        return
    output.print_pairs(
        f"Wait for {counted(result.records, 'record')}.",
        [
            (
                "promise",
                f"every class shows at least {counted(ell, 'value')}, except with probability "
                f"{result.delta:.4g}",
            ),
            ("p", f"{result.p:.6g}, at most p_ell = {result.p_ell:.6g}"),
            ("m", f"{result.m:.6g} (upper bound on the number of classes)"),
            ("records", f"{result.records_exact:.3f} before rounding up"),
            ("classes", f"{result.classes:,} if all quasi-identifiers are equally frequent"),
        ],
    )


def _marginal(values: int | None, name: str, file: Path | None) -> ArrayLike:
    from elldelta.paper import geometric_marginal, uniform_marginal

    if file is not None:
        probabilities = _read_marginal(file)
        if values not in (None, len(probabilities)):
            raise ParameterError(
                "--values must agree with the file, or be left out.",
                found=f"--values {values}, and {counted(len(probabilities), 'line')} in the file.",
            )
        return probabilities
    if values is None:
        raise ParameterError("Give --values, the number of sensitive values, or --marginal-file.")
    if name == "uniform":
        return uniform_marginal(values)
    kind, _, ratio = name.partition(":")
    try:
        if kind == "geometric":
            return geometric_marginal(values, float(ratio))
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
    raise ParameterError(
        "--marginal must be 'uniform' or 'geometric:RATIO'.",
        found=f"It is {name!r}.",
        remedy="For example: --marginal geometric:0.95. For anything else use --marginal-file.",
    )


def _read_marginal(file: Path) -> list[float]:
    text = read_text(file, "file", remedy="Give a text file with one probability per line.")
    probabilities = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            probabilities.append(float(line))
        except ValueError:
            raise FileError(
                f"Line {number} of {str(file)!r} is not a number.",
                remedy="Write one probability per line, with a decimal point.",
            ) from None
    return probabilities


@command("figures", example="figures -o figures/")
def _figures(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to; made if missing.")],
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """The paper's four figures as SVG and PNG, each with a CSV of its numbers."""
    from elldelta.paper import write_figures

    with output.progress_bar("Drawing") as progress:
        files = write_figures(folder, overwrite=overwrite, progress=progress)
    lines = (f"Wrote {counted(len(files), 'file')} to {folder}:", *(f"  {file.name}" for file in files))
    output.print_result({"files": [str(file) for file in files]}, *lines, as_json=json)
