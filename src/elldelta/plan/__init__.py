"""Plans: made from a model alone, used by every owner.

The wish, the planner and its shapes, frontier and comparison, accounting over several releases, the plan
file and its signature.
"""

from elldelta.rooms import make_callable

make_callable(__name__, "elldelta.plan.planner.plan")
