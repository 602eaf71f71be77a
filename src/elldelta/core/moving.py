"""Classes that move up the tree of a plan, some of them by chance (Theorem K, `docs/theory/moving.md`).

Every leaf draws a height: 0 with probability 1 - rho, k >= 1 with probability rho (1 - q) q^(k - 1), and
moves up so many steps, at most to the root: a decoy. Then every node that does not pass is replaced by its
parent, with all that lies below. Whether a node passes depends on its own counts and on public things only.
So a merged class does not tell why it was merged: two tables with the same release that differ inside one
published node give it with probabilities whose ratio is at most K_d (`Moving.odds_upper`).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_real
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from elldelta.core.box_tree import BoxTree
    from elldelta.core.partition import Partition

RHO = 0.05
"""The usual chance that a leaf moves up though nothing asks for it."""

Q = 0.1
"""The usual chance that a decoy goes one step further."""

FEWEST_SECRET_BYTES = 16

_BITS = 64
"""Bits of the coin of a leaf; no height has a chance that these cannot tell from 0."""


@dataclass(frozen=True)
class Moving:
    """How the classes of a plan move up its tree: decided with the plan, before anybody's table is seen.

    Attributes:
        merge_risk: The largest chance that a leaf does not pass by itself, with the plan's records.
        rho: The chance that a leaf is a decoy.
        q: The chance that a decoy goes one step further.
    """

    merge_risk: float
    rho: float = RHO
    q: float = Q

    def __post_init__(self) -> None:
        for name in ("merge_risk", "rho", "q"):
            words = f"The {name.replace('_', ' ')} must lie strictly between 0 and 1."
            object.__setattr__(self, name, check_real(getattr(self, name), lambda x: 0.0 < x < 1.0, words))

    def odds_upper(self, steps: int, *, is_root: bool = False) -> float:
        """K_d: by how much a release can change the odds of two tables that differ inside one of its nodes.

        Args:
            steps: d, the steps from the node to its nearest leaf; 0 for a leaf.
            is_root: Whether the node is the root, where decoys of all greater heights end too.
        """
        if steps == 0:
            return 1.0
        return 1.0 / (self.rho * (1.0 if is_root else 1.0 - self.q) * self.q ** (steps - 1))

    @property
    def k1(self) -> float:
        """K_1, for a class that is published together with its nearest neighbour."""
        return self.odds_upper(1)


def decoy_heights(
    moving: Moving, secret: bytes, plan_digest: str, announced: str, n_leaves: int
) -> NDArray[np.int64]:
    """The height of every leaf: the same whenever the same release is made, and known to its owner alone.

    The coins come from a keyed function of the plan and of the announced name, never of the table: whoever
    could try tables, or choose among draws, would learn what the coins are there to hide.

    Args:
        moving: The chances.
        secret: What only the owner knows.
        plan_digest: The digest of the plan.
        announced: The name under which the release was announced.
        n_leaves: How many leaves the plan has.
    """
    if len(secret) < FEWEST_SECRET_BYTES:
        raise ParameterError(
            f"The secret of an owner has at least {FEWEST_SECRET_BYTES} bytes.",
            found=f"It has {len(secret)}.",
        )
    texts = (plan_digest.encode(), announced.encode())
    message = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
    key = hmac.digest(secret, b"elldelta decoys" + message, "sha256")
    coins = np.frombuffer(hashlib.shake_256(key).digest(8 * n_leaves), dtype=">u8")
    heights = np.zeros(n_leaves, dtype=np.int64)
    reaches = moving.rho  # the chance of this height or more
    while (limit := int(reaches * 2.0**_BITS)) > 0:
        heights += coins < np.uint64(limit)
        reaches *= moving.q
    return heights


def move_up(
    tree: BoxTree,
    heights: NDArray[np.int64],
    passes: Callable[[Partition], NDArray[np.bool_]],
) -> Partition:
    """The published class of every leaf: decoys first, then every node that does not pass moves up.

    The result does not depend on the order: a node that does not pass is below the final cut whichever is
    raised first.

    Args:
        tree: The tree of the plan.
        heights: How many steps each leaf moves up by chance.
        passes: Says of every class of a grouping of the leaves whether it passes.

    Raises:
        RefusedError: Not even all classes together pass.
    """
    if heights.shape != (tree.n_leaves,) or (heights < 0).any():
        raise ParameterError("Every leaf needs its height.", found=f"Shape {heights.shape}.")
    nodes = tree.leaves
    for step in range(int(heights.max(initial=0))):
        moves = (heights > step) & (nodes > 0)
        if not moves.any():
            break
        nodes = np.where(moves, tree.parents[nodes], nodes)
    while True:
        nodes = tree.topmost(nodes)
        grouping = tree.grouping(nodes)
        fails = ~passes(grouping)
        if not fails.any():
            return grouping
        if nodes[0] == 0:
            raise RefusedError(
                "The table does not pass, not even as a single class.",
                found="All of its classes together show too little.",
                remedy="Wait for a size or date that was announced beforehand.",
            )
        nodes = np.where(fails, tree.parents[nodes], nodes)
