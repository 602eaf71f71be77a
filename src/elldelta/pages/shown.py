"""Objects that show themselves: a few lines in a terminal, tables and a picture in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.pages.page import fragment, spelt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure


class Shown:
    """What the nouns of the story have in common when somebody looks at one of them."""

    def facts(self) -> Mapping[str, object]:
        """What is worth knowing at a glance, at most nine facts."""
        raise NotImplementedError

    def listing(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """The headings and rows of a table that says more; without any by default."""
        return (), ()

    def plot(self) -> Figure | None:
        """A picture, where one says more than numbers."""
        return None

    def __repr__(self) -> str:
        lines = (f"  {name}: {spelt(value)}" for name, value in self.facts().items())
        return "\n".join([type(self).__name__, *(line[:200] for line in lines)])

    def _repr_html_(self) -> str:
        """The same in a notebook, with the tables and pictures of our pages; nothing from the network."""
        columns, rows = self.listing()
        return fragment(type(self).__name__, self.facts(), columns=columns, rows=rows, picture=self.plot())
