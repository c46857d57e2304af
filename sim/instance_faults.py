"""Faults of an instance that begin and end. Each emits an event, so that the trace shows it."""

from __future__ import annotations

from streamproof.sim.instances import Instance
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["Troubles"]


class Troubles:
    """Begins and ends the faults of the instances of an application.

    Args:
        world: the world.
        network: the network of the application.
    """

    def __init__(self, world: World, network: Network) -> None:
        self._world = world
        self._network = network

    def pause(self, instance: Instance) -> None:
        """Stop the process for a while, as a long garbage collection does."""
        if instance.host is not None and instance.host.is_up:
            self._tell("instance.stood_still", instance)
            instance.host.pause()

    def resume(self, instance: Instance) -> None:
        """Let the process go on. The events that it awaited may lie far in the past."""
        host = instance.host
        if host is not None and host.is_alive and not host.is_up:
            self._tell("instance.went_on", instance)
            host.resume()

    def cut(self, instance: Instance) -> None:
        """Cut the instance off from the brokers, in both directions."""
        self._tell("network.cut", instance)
        self._network.cut(instance.name)

    def heal(self, instance: Instance) -> None:
        """Connect the instance again."""
        if self._network.is_cut(instance.name):
            self._tell("network.connected", instance)
            self._network.heal(instance.name)

    def fill(self, instance: Instance) -> None:
        """Fill the disk."""
        self._tell("disk.filled", instance)
        instance.disk.is_full = True

    def empty(self, instance: Instance) -> None:
        """Free space on the disk."""
        if instance.disk.is_full:
            self._tell("disk.emptied", instance)
            instance.disk.is_full = False

    def end(self, instance: Instance) -> None:
        """End all faults of the instance, and start it if it does not run."""
        # Repair first: an instance that starts uses its disk and its network at once.
        self.heal(instance)
        self.empty(instance)
        instance.resume()
        self.resume(instance)
        instance.start()

    def _tell(self, kind: str, instance: Instance) -> None:
        self._world.trace.emit(kind, instance.name)
