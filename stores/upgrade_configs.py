"""The one place that says what ``upgrade.from`` and ``upgrade.mode`` ask of a store.

Two proposals use ``upgrade.from``, and its release tells the uses apart:

.. code-block:: text

    upgrade.from            upgrade.mode   asks for
    not set                 any            nothing: the mode is ignored (KIP-258)
    before 2.3              in_place       the plain format, and a rebuild beside it (KIP-258)
    before 2.3              roll_over      the plain format (KIP-258)
    before 2.3              not set        an error; as shipped, the same as from 2.3 to 4.2
    from 2.3 to 4.2         not set        offsets in files at the end (KIP-1035)
    from 2.3 on             set            an error; as shipped, the mode is ignored
    4.3                     not set        nothing: that release reads offsets in the stores
    anything else           any            an error

Release 2.3 is the first whose stores have timestamps, and 4.3 is the first whose stores manage
their offsets. Kafka has shipped no ``upgrade.mode``: there the release alone decides.

Source: KIP-258, "Public Interfaces"; KIP-1035, "Downgrade"; Kafka, UpgradeFromValues.
"""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

from streamproof.errors import UsageError
from streamproof.stores.api import UPGRADE_FROM_CONFIG, UPGRADE_MODE_CONFIG, StateStoreContext

__all__ = ["RELEASES", "UpgradeMode", "UpgradeUse", "is_downgrade", "upgrade_mode", "upgrade_use"]

UpgradeMode = Literal["in_place", "roll_over"]
"""How an upgrade is prepared: with a rebuild beside the live store, or without a rebuild."""

UpgradeUse = Literal["in_place", "roll_over", "offsets"]
"""An upgrade of formats in preparation, or ``offsets`` in files for an older release."""

_WITHOUT_TIMESTAMPS: Final = (
    *("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"),
    *("2.0", "2.1", "2.2"),
)

_WITHOUT_OFFSETS: Final = (
    *("2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *(f"3.{minor}" for minor in range(10)),
    *("4.0", "4.1", "4.2"),
)

RELEASES: Final = (*_WITHOUT_TIMESTAMPS, *_WITHOUT_OFFSETS, "4.3")
"""The values of ``upgrade.from``, oldest first. KIP-258 writes an ``.x`` after each of them."""


def upgrade_use(context: StateStoreContext, *, shipped: bool = False) -> UpgradeUse | None:
    """What the configuration asks of a store, as the module describes; ``None`` for nothing.

    Args:
        context: the context of the store.
        shipped: whether to read the configuration as Kafka shipped it, without ``upgrade.mode``.

    Raises:
        UsageError: ``upgrade.from`` is no release, or ``upgrade.mode`` is missing, not known, or
            out of place.
    """
    release = _release(context)
    if release is None:
        return None
    mode = None if shipped else context.app_configs.get(UPGRADE_MODE_CONFIG)
    if release in _WITHOUT_TIMESTAMPS and not shipped:
        return _known(mode, release)
    if mode is not None:
        raise UsageError(
            f"{UPGRADE_MODE_CONFIG} is {mode!r}, but the stores of release {release} have "
            f"timestamps already: remove {UPGRADE_MODE_CONFIG}, or set {UPGRADE_FROM_CONFIG} to a "
            "release before 2.3."
        )
    return None if release == RELEASES[-1] else "offsets"


def upgrade_mode(context: StateStoreContext) -> UpgradeMode | None:
    """The mode of the upgrade of formats in preparation (KIP-258); ``None`` without one.

    Raises:
        UsageError: as ``upgrade_use``.
    """
    use = upgrade_use(context)
    return None if use == "offsets" else use


def is_downgrade(context: StateStoreContext, *, shipped: bool = False) -> bool:
    """Whether closing a store must leave its offsets in files for an older release (KIP-1035).

    Raises:
        UsageError: as ``upgrade_use``.
    """
    return upgrade_use(context, shipped=shipped) == "offsets"


def _release(context: StateStoreContext) -> str | None:
    text = context.app_configs.get(UPGRADE_FROM_CONFIG)
    if text is None:
        return None
    release = text.removesuffix(".x") if isinstance(text, str) else None
    if release not in RELEASES:
        raise UsageError(
            f"{UPGRADE_FROM_CONFIG} is {text!r}; set it to one of {', '.join(RELEASES)}, such as "
            "'4.2' or '0.10.0.x', or remove it."
        )
    return release


def _known(mode: object, release: str) -> UpgradeMode:
    if mode not in get_args(UpgradeMode):
        raise UsageError(
            f"{UPGRADE_FROM_CONFIG} is {release}, whose stores have no timestamps, and "
            f"{UPGRADE_MODE_CONFIG} is {mode!r}: set {UPGRADE_MODE_CONFIG} to one of "
            f"{', '.join(get_args(UpgradeMode))}, or remove {UPGRADE_FROM_CONFIG} if no upgrade "
            "is being prepared."
        )
    return cast(UpgradeMode, mode)
