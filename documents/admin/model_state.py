"""How the model's work on a document or on a domain is shown: a tone, an icon and a few words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from documents.enrichment import PARTIAL
from documents.models import ApiDocument, LlmJob

State = LlmJob.State


@dataclass(frozen=True)
class ModelLine:
    """One line on the model's work; ``busy`` while something is still to come by itself, ``failed`` for a retry."""

    tone: str
    icon: str
    words: str
    reason: str = ""
    busy: bool = False
    failed: bool = False
    made_at: datetime | None = None
    next_attempt_at: datetime | None = None


def model_line(job: LlmJob | None, *, configured: bool) -> ModelLine | None:
    """The line of one job; None where there is nothing to say: no model, and never one before."""
    if job is None:
        return ModelLine("plum", "clock", _("Waits for the model"), busy=True) if configured else None
    if job.error_code == PARTIAL:
        return ModelLine("ochre", "alert", _("Written in part"), job.reason, failed=True, made_at=job.made_at)
    if job.state == State.FAILED:
        return ModelLine(
            "red", "cross", _("The model failed"), job.reason, failed=True, next_attempt_at=job.next_attempt_at
        )
    if job.state == State.DONE:
        words = _("Written by %(model)s") % {"model": job.model} if job.model else _("The model had nothing to write")
        return ModelLine("pine", "ok", words, job.reason, made_at=job.made_at)
    if not configured:
        return ModelLine("ink", "off", _("Waits until a model is set up"))
    if job.state == State.RUNNING:
        return ModelLine("blue", "clock", _("The model is writing"), busy=True)
    return ModelLine("plum", "clock", _("Waits for the model"), job.reason, busy=True)


def document_line(document: ApiDocument, *, configured: bool) -> ModelLine | None:
    """The line of a document: of a hidden one the model is told nothing, so that nothing is to come."""
    line = model_line(getattr(document, "enrichment", None), configured=configured)
    hidden = not document.enabled or document.missing_since is not None
    if line is not None and line.busy and hidden:
        return ModelLine("ink", "off", _("Waits until the document is no longer hidden"))
    return line
