"""A whole calibration: ask everything, propose, and compare the levels before and after."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from clients.interfaces import LevelFit
from observability.calibration.asked import Asked, CalibrationError, level_mix
from observability.calibration.asking import AT_A_TIME, Site
from observability.calibration.fitting import Labelled, propose
from observability.calibration.questions import Label, recent_queries, unanswerable_questions
from observability.evaluation.progress import Progress

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""What :func:`observability.calibration.asking.answer` does, here or in the running server."""


@dataclass(frozen=True)
class Found:
    """Questions without an answer: how many were asked, and how many meaning finds something for."""

    asked: int
    before: int
    after: int


@dataclass(frozen=True)
class Kept:
    """Labelled questions: the search ranks the document of ``ranked`` among its first; of those it is shown for."""

    asked: int
    ranked: int
    before: int
    after: int


@dataclass(frozen=True)
class LevelMix:
    """How many questions get each level by the fit in force and by the proposed one."""

    asked: int
    before: dict[str, int]
    after: dict[str, int]


@dataclass(frozen=True)
class Calibration:
    """What was found out. ``levels`` by group: ``unanswerable_far``, ``unanswerable_near``, ``labels``, ``recent``."""

    site: Site
    proposed: LevelFit
    unanswerable: Found
    labels: Kept | None
    levels: dict[str, LevelMix]

    def as_dict(self, *, applied: bool) -> dict[str, Any]:
        """What ``--json`` prints."""
        site = self.site
        return {
            "embedder": site.embedder,
            "version": site.version,
            "chunks": site.chunks,
            "in_force": asdict(site.in_force),
            "source": "calibration" if site.calibrated else "embedder",
            "environment": {"highly_relevant": site.highly_relevant, "reference": site.reference},
            "proposed": asdict(self.proposed),
            "unanswerable": asdict(self.unanswerable),
            "labels": asdict(self.labels) if self.labels is not None else None,
            "levels": {name: asdict(mix) for name, mix in self.levels.items()},
            "applied": applied,
        }


def site_at_hand(answer: Answer) -> Site:
    """The site, without asking it anything yet; ``CalibrationError`` where it cannot be calibrated."""
    return Site.of(_answered(answer, [])["site"])


def calibrate(answer: Answer, labels: Sequence[Label], *, progress: TextIO | None) -> Calibration:
    """Everything but saving."""
    site = site_at_hand(answer)
    groups = _asked(
        answer,
        {
            **{f"unanswerable_{subject}": texts for subject, texts in unanswerable_questions().items()},
            "labels": [label.query for label in labels],
            "recent": recent_queries(),
        },
        progress,
    )
    unanswerable = [one for name, group in groups.items() if name.startswith("unanswerable") for one in group]
    if not any(one.candidates for one in unanswerable):
        raise CalibrationError(
            "The store finds nothing for any question: its vectors are gone. Run: python manage.py reindex --all"
        )
    labelled = [Labelled(one, label.document) for one, label in zip(groups["labels"], labels, strict=True)]
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    proposed = propose(site.shipped, unanswerable, labelled, chunks=site.chunks, date=date)
    before, after = site.rule(site.in_force), site.rule(proposed)
    return Calibration(
        site=site,
        proposed=proposed,
        unanswerable=Found(
            asked=len(unanswerable),
            before=sum(one.finds(before) for one in unanswerable),
            after=sum(one.finds(after) for one in unanswerable),
        ),
        labels=Kept(
            asked=len(labelled),
            ranked=sum(one.candidate is not None for one in labelled),
            before=sum(one.kept(before) for one in labelled),
            after=sum(one.kept(after) for one in labelled),
        )
        if labelled
        else None,
        levels={
            name: LevelMix(len(group), level_mix(group, before), level_mix(group, after))
            for name, group in groups.items()
            if group
        },
    )


def _asked(answer: Answer, groups: Mapping[str, Sequence[str]], progress: TextIO | None) -> dict[str, list[Asked]]:
    told = Progress(progress, "Asking the store", sum(map(len, groups.values())))
    found: dict[str, list[Asked]] = {}
    for name, queries in groups.items():
        found[name] = []
        for start in range(0, len(queries), AT_A_TIME):
            batch = list(queries[start : start + AT_A_TIME])
            found[name] += [Asked.of(one) for one in _answered(answer, batch)["asked"]]
            told.add(len(batch))
    return found


def _answered(answer: Answer, queries: list[str]) -> dict[str, Any]:
    answered = answer({"queries": queries})
    if "error" in answered:
        raise CalibrationError(answered["error"])
    return answered
