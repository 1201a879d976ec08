"""The two kinds of site that are killed: one process on SQLite and Milvus Lite; two web processes and a worker on
MariaDB and Redis."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bench.site_process import ROOT, SiteProcess
from tests.services.fleet import Child, Fleet, WebProcess

SETTINGS = "tests.services.site_settings"


class Stack(Protocol):
    """A site whose processes can be killed and started again."""

    name: str
    folder: Path
    points: Path
    sites: list[SiteProcess]

    def start(self) -> None:
        """Serve; answers when the site does."""

    def kill(self, chance: random.Random) -> str:
        """SIGKILL to one process with its children; its name."""

    def revive(self) -> None:
        """Start again whatever is dead, and wait until the site answers."""

    def restart_into(self, reached: Callable[[], bool]) -> None:
        """Let a place be reached that lies in the start, or in the scan."""

    def stop(self) -> None:
        """SIGTERM, and wait."""


class Common:
    """What both kinds share: commands, the places to stop at, a look at all stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points = folder / "failpoints"
        self.points.mkdir(parents=True, exist_ok=True)
        self.sites: list[SiteProcess] = []

    def inspect(self, *arguments: str) -> dict[str, Any]:
        """``bench.reliability.inspection`` on this site."""
        environment = {name: value for name, value in self.sites[0].environment.items() if name != "KBSITE_FAILPOINTS"}
        done = subprocess.run(
            [sys.executable, "-m", "bench.reliability.inspection", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-3000:])
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def reconcile(self, *options: str) -> dict[str, Any]:
        """``manage.py reconcile --json``: what it found."""
        done = self.sites[0].command("reconcile", "--json", *options)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(f"reconcile: {done.returncode}, {done.stdout[-500:]} {done.stderr[-2000:]}")
        return dict(json.loads(lines[-1]))

    def _answers(self, site: SiteProcess) -> bool:
        return site.status("/healthz") == 200


class EmbeddedStack(Common):
    """One process."""

    name = "SQLite and Milvus Lite, one process"

    def __init__(self, folder: Path, *, embedder: str = "hashing") -> None:
        super().__init__(folder)
        site = SiteProcess(
            folder, embedder=embedder, DJANGO_SETTINGS_MODULE=SETTINGS, PYTHONPATH=str(ROOT),
            KBSITE_FAILPOINTS=str(self.points),
        )  # fmt: skip
        self.sites = [site]
        self._child: Child | None = None

    def start(self) -> None:
        site = self.sites[0]
        if not site.key:
            prepared = site.command("bootstrap")
            if prepared.returncode != 0:
                raise RuntimeError(prepared.stderr)
            site.make_key()
        self._serve()
        self._wait()

    def _serve(self) -> None:
        self._child = Child("server", self.folder, self.sites[0].environment, "kbsite")

    def _wait(self) -> None:
        """Until it answers; a process that a failpoint killed meanwhile is started again."""
        deadline = time.monotonic() + 60
        while not self._answers(self.sites[0]):
            if self._dead():
                self._serve()
            if time.monotonic() > deadline:
                raise TimeoutError(self._living().tail())
            time.sleep(0.02)

    def _living(self) -> Child:
        assert self._child is not None
        return self._child

    def _dead(self) -> bool:
        return self._living().process.poll() is not None

    def kill(self, chance: random.Random) -> str:
        self._living().kill()
        return "server"

    def revive(self) -> None:
        child = self._living()
        if self._dead():
            with_children(child)
            self._serve()
        self._wait()

    def restart_into(self, reached: Callable[[], bool]) -> None:
        self._living().kill()
        self._serve()

    def stop(self) -> None:
        if self._child is not None and not self._dead():
            self._child.stop()


def with_children(child: Child) -> None:
    """What a process that killed itself left behind in its group: processes that embed."""
    try:
        child.kill()
    except ProcessLookupError:
        child.process.wait()


class FleetStack(Common):
    """Two web processes, a Celery worker and the beat."""

    name = "MariaDB and Redis, two web processes and a Celery worker"

    def __init__(self, folder: Path, variables: dict[str, str], end_turn: Callable[[], object]) -> None:
        """``end_turn`` frees the turn of a reconcile that was killed, as two minutes would."""
        super().__init__(folder)
        self._end_turn = end_turn
        self.fleet = Fleet(folder, {**variables, "KBSITE_FAILPOINTS": str(self.points)})
        self._beat: Child | None = None
        self._worker: Child | None = None

    def start(self) -> None:
        for _ in range(2):
            self.fleet.web()
        self.sites = list(self.fleet.webs)
        self._worker = self.fleet.worker()
        self._beat = self.fleet.beat(2.0)

    def kill(self, chance: random.Random) -> str:
        assert self._worker is not None
        chosen = chance.choice([*(web.child for web in self.fleet.webs), self._worker])
        with_children(chosen)
        return chosen.log.stem

    def revive(self) -> None:
        for web in self.fleet.webs:
            if web.child.process.poll() is not None:
                web.serve()
                self.fleet.children.append(web.child)
        self._revive_worker()
        for web in self.fleet.webs:  # gunicorn puts another in the place of a worker that died
            deadline = time.monotonic() + 60
            while not self._answers(web):
                if time.monotonic() > deadline:
                    raise TimeoutError(web.child.tail())
                time.sleep(0.02)

    def _revive_worker(self) -> None:
        if self._worker is not None and self._worker.process.poll() is not None:
            with_children(self._worker)
            self._worker = self.fleet.worker()

    def restart_into(self, reached: Callable[[], bool]) -> None:
        """By a command: of several processes none scans at its start."""
        self._end_turn()
        self.sites[0].command("reconcile")
        if not reached():
            self.sites[0].command("scan")
        self._end_turn()

    def web(self, chance: random.Random) -> WebProcess:
        """Either."""
        return chance.choice(self.fleet.webs)

    def stop(self) -> None:
        self.fleet.stop()


def empty(folder: Path) -> Path:
    """A folder without anything in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
