"""`elldelta compose`: what releases of several plans promise together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import ParameterError, counted


@command("compose", example="compose plan_a.json:2 plan_b.json:1")
def _run(
    plans: Annotated[
        list[str], typer.Argument(help="Plans, each with the number of its releases: plan.json:2")
    ],
    json: options.Json = False,
) -> None:
    """What linking releases of one or several plans leaves: for every ell, how likely it fails.

    Where plans promise closeness, also how far all releases together can lead from what each of them says.
    """
    from elldelta.engines.task import computed
    from elldelta.plan.compose import compose

    events = [_event(text) for text in plans]
    with output.progress_bar("Computing") as progress:
        composed = computed(lambda _: compose(events), progress)
    if json:
        output.print_json(composed.to_dict())
        return
    for column in (composed, *composed.also):
        about = f", {column.column}" if column.column else ""
        output.print_table(
            f"Linking {counted(column.profile.releases, 'release')}{about}",
            ("ell", "fewer than ell values left for somebody, probability at most"),
            [
                (str(ell), f"{failure:.3g}" if failure < 1.0 else "no promise")
                for ell, failure in enumerate(column.profile.failures_upper.tolist(), start=1)
            ],
        )
        for item in column.closeness:
            far = item.distance_upper
            output.print_text(
                f"Closeness to what plan {item.plan[:15]} says: "
                + ("no promise" if far is None else f"at most {far:.3g}")
                + f" for these releases; {item.promised:g} is what it promises by itself."
            )
    output.print_text("What must be true:", *(f"  - {condition}" for condition in composed.conditions))


def _event(text: str) -> tuple[Path, int]:
    name, colon, number = text.rpartition(":")
    if not colon:
        name, number = text, "1"
    if not number.isdecimal() or int(number) < 1:
        raise ParameterError(
            "A plan must be followed by a colon and the number of its releases.",
            found=f"It is {text!r}.",
            remedy="For example: plan_a.json:2",
        )
    return Path(name), int(number)
