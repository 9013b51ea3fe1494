"""What the server and every device agree on before anything is sent: both hold this file."""

from gape import Plan
from gape.distributed.federated import Terms

PLAN = Plan(epsilon=2.0, delta=1e-3, rounds=2, samples=40, scales=(0.3, 0.05), copies=2)

TERMS = Terms.for_plan(
    PLAN,
    federation="example: eight devices",
    devices=8,
    dropouts=2,  # in any round, at any step
    colluders=1,
    dimension=2,
    spare=2,  # ballots for rounds that fail
)
