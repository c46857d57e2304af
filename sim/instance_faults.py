"""What goes wrong with an instance for a while, each with an event, so that a trace tells of it."""

from __future__ import annotations

from streamproof.sim.instances import Instance
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["Troubles"]


class Troubles:
    """What can go wrong with the instances of an application, and end again.

    Args:
        world: the world.
        network: of the application.
    """

    def __init__(self, world: World, network: Network) -> None:
        self._world = world
        self._network = network

    def pause(self, instance: Instance) -> None:
        """Let the process stand still, as in a long garbage collection."""
        if instance.host is not None and instance.host.is_up:
            self._tell("instance.stood_still", instance)
            instance.host.pause()

    def resume(self, instance: Instance) -> None:
        """Let the process go on: what it was waiting for may have happened long ago."""
        host = instance.host
        if host is not None and host.is_alive and not host.is_up:
            self._tell("instance.went_on", instance)
            host.resume()

    def cut(self, instance: Instance) -> None:
        """Separate the instance from the brokers: nothing passes in either direction."""
        self._tell("network.cut", instance)
        self._network.cut(instance.name)

    def heal(self, instance: Instance) -> None:
        """Connect the instance again."""
        if self._network.is_cut(instance.name):
            self._tell("network.connected", instance)
            self._network.heal(instance.name)

    def fill(self, instance: Instance) -> None:
        """Let the disk be full."""
        self._tell("disk.filled", instance)
        instance.disk.is_full = True

    def empty(self, instance: Instance) -> None:
        """Let the disk have space again."""
        if instance.disk.is_full:
            self._tell("disk.emptied", instance)
            instance.disk.is_full = False

    def end(self, instance: Instance) -> None:
        """End all of it, and start what does not run."""
        self.heal(instance)
        self.empty(instance)
        instance.resume()
        self.resume(instance)
        instance.start()

    def _tell(self, kind: str, instance: Instance) -> None:
        self._world.trace.emit(kind, instance.name)
