"""Whether the folder is watched: kept in the database, for one process watches and any is asked (``/readyz``)."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext as _

from clients.folder_events import LIMIT
from clients.interfaces import PartHealth
from documents.counters import put, read

COMPARE_SECONDS = 30
"""How often the whole folder is compared where it cannot be watched."""
_NAME = "folder_watch"
_WATCHED, _LIMIT, _FAILED = 0, 1, 2


def remember_watched() -> None:
    """The folder is watched."""
    _remember(_WATCHED)


def remember_unwatched(code: str) -> None:
    """It cannot be; ``code`` is the :class:`~clients.interfaces.ClientError`'s."""
    _remember(_LIMIT if code == LIMIT else _FAILED)


def _remember(state: int) -> None:
    if read(_NAME) != state:
        put(_NAME, state)


def watch_state() -> PartHealth:
    """Degraded while the folder is compared from time to time instead of watched."""
    state = read(_NAME) if settings.WATCH_FOLDER else _WATCHED
    if state == _LIMIT:
        hint = _(
            "The folder cannot be watched (inotify limit): it is compared every %(seconds)s seconds. "
            "Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances."
        )
    elif state == _FAILED:
        hint = _("The folder cannot be watched: it is compared every %(seconds)s seconds. The log says why.")
    else:
        return PartHealth("ok")
    return PartHealth("degraded", hint % {"seconds": COMPARE_SECONDS})
