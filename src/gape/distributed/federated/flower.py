"""Transport by Flower: a `Channel` over its Grid, and a ClientApp around a `Device`.

Flower handles transport, scheduling and reaching devices, but not secrecy: messages are sealed or masked before it
receives them. Needs `pip install gape[federated]`.
"""

import time
from collections.abc import Callable, Mapping

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from gape.core.errors import GapeError, ServiceError
from gape.distributed.federated.device import Device, Secrets
from gape.distributed.federated.messages import Reply, Request, to_record, to_reply, to_request

_RECORD = "gape"
_ACTION = "query.gape"


class GridChannel:
    """The devices of a Flower federation, as seen by a ServerApp.

    A device that has not answered within `timeout` seconds has dropped out of the session. Each of the four steps waits
    for all devices that take part, so a silent device costs the whole timeout once.
    """

    def __init__(self, grid: Grid, *, timeout: float = 600.0) -> None:
        """Send messages through `grid`; `failures` collects the reasons of devices that failed, with their nodes."""
        self._grid, self._timeout = grid, timeout
        self.failures: list[tuple[int, str]] = []

    def wait(self, devices: int, *, timeout: float = 600.0) -> None:
        """Wait until so many devices are connected."""
        end = time.monotonic() + timeout
        while (count := len(self.devices())) < devices:
            if time.monotonic() > end:
                raise ServiceError(f"{count} of {devices} devices are connected after {timeout:g} s; start the others")
            time.sleep(1.0)

    def devices(self) -> list[int]:
        """Return the ids of the nodes that are connected to Flower."""
        return sorted(self._grid.get_node_ids())

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        """Send each node its request and return the replies that came in time; an error counts as no reply."""
        messages = [
            Message(RecordDict({_RECORD: ConfigRecord(to_record(request))}), node, _ACTION, ttl=self._timeout)
            for node, request in requests.items()
        ]
        replies = {}
        for message in self._grid.send_and_receive(messages, timeout=self._timeout):
            node = message.metadata.src_node_id
            try:
                if message.has_error():
                    self.failures.append((node, message.error.reason))
                else:
                    replies[node] = to_reply(dict(message.content[_RECORD]))
            except (GapeError, KeyError):
                self.failures.append((node, "it sent a message that does not belong to any step"))
        return replies


def client_app(device: Callable[[Context, Secrets], Device]) -> ClientApp:
    """Make the ClientApp of a device.

    `device(context, remembered)` makes the device from the configuration of its SuperNode (`context.node_config`) and
    from its state in the session. The state stays in the memory of the SuperNode and is never sent.
    """

    def answer(message: Message, context: Context) -> Message:
        # Flower sends the text of an error to the server. Messages of the protocol are written for that; any other may
        # name files of the device or quote private text.
        remembered = context.state.get(_RECORD)
        try:
            held = device(context, Secrets(**dict(remembered)) if remembered else Secrets())
        except Exception as error:
            raise _failure(error) from error
        try:
            reply = held.answer(to_request(dict(message.content[_RECORD])))
        except GapeError:
            raise
        except Exception as error:
            raise _failure(error) from error
        context.state[_RECORD] = ConfigRecord(held.remembered.to_record())
        return Message(RecordDict({_RECORD: ConfigRecord(to_record(reply))}), reply_to=message)

    app = ClientApp()
    app.query("gape")(answer)
    return app


def _failure(error: Exception) -> ServiceError:
    return ServiceError(f"the device failed with {type(error).__name__}; see its own log")
