"""What runs at the server, which has no records."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from gape import Budget, Gape, GaussianGenerator, IdentityEmbedder, Ledger, StartFromBox
from gape.distributed.federated import Channel, FederatedElectorate
from gape.distributed.federated.flower import GridChannel
from gape.runs.federated import run_federated
from votes_from_devices.agreement import PLAN, TERMS


def synthesize(channel: Channel, folder: Path) -> FederatedElectorate:
    """Run Private Evolution with the devices that the channel reaches."""
    folder.mkdir(parents=True, exist_ok=True)
    electorate = FederatedElectorate(TERMS, channel)
    _, statement = run_federated(
        folder / "run",
        PLAN,
        GaussianGenerator.isotropic(StartFromBox((-2.0, -2.0), (2.0, 2.0)), 2),
        IdentityEmbedder(),
        electorate,
        Gape.paper(separation=3.0, threshold=0.0),
        Ledger(folder / "ledger.sqlite", Budget(PLAN.epsilon, PLAN.delta)),
    )
    (folder / "attendance.txt").write_text("\n".join(map(str, electorate.attendance)))
    (folder / "statement.txt").write_text(statement.text())
    return electorate


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for enough devices, then run."""
    channel = GridChannel(grid, timeout=float(context.run_config["timeout"]))
    channel.wait(TERMS.devices)
    synthesize(channel, Path(str(context.run_config["folder"])))
