"""What a language model writes about one document (SPEC section 3, end): claimed, asked, checked, kept as drafts.

Nothing waits for it: a document is saved, found and indexed whatever becomes of this. It counts only where file and
lease are still the job's own.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from clients.interfaces import ClientError
from clients.registry import get_llm
from clients.structured import StructuredAnswer, ask_structured
from documents import storage
from documents.content import current_bytes
from documents.disk_changes import absorb
from documents.domains import mark_drafts
from documents.enrichment_check import shape_for
from documents.enrichment_due import READABLE, due_documents, unseen
from documents.enrichment_review import accept
from documents.enrichment_text import Subject, messages_for, rules
from documents.errors import DocumentError
from documents.failpoints import failpoint
from documents.generated import PROPOSED, in_use, lacking_fields, wanted_fields, with_drafts
from documents.llm_jobs import Lease, LeasedLLM, LeaseLostError, claim, fail, finish, give_back, running
from documents.models import ApiDocument, DocumentEnrichment, LlmJob
from documents.publishing import locked
from documents.reading import body_of
from documents.transactions import repeated_on_deadlock

log = logging.getLogger("documents.enrichment")
PARTIAL = "llm_partial"
"""The error code of a row of which some fields were written and others not; it waits for a person's retry."""
_LOOKS = 3
_NOTHING_TO_SAY = "The document has no text below its header."


@dataclass(frozen=True)
class _Job:
    """A claimed document as it stood when it was read. ``targets`` are the fields that the answer may write."""

    lease: Lease
    content_hash: str
    body_hash: str
    subject: Subject
    targets: tuple[str, ...]

    @property
    def document_id(self) -> int:
        return self.lease.pk


@dataclass(frozen=True)
class _Read:
    """A document's row with the body of its file."""

    document: ApiDocument
    body: str

    @property
    def body_hash(self) -> str:
        return hashlib.sha256(self.body.encode("utf-8", "surrogatepass")).hexdigest()


def enrich_next(stopping: Callable[[], bool] = lambda: False) -> bool:
    """Look at one document that is due; False where none is, no model is configured, or enough jobs run already."""
    if not get_llm().configured:
        return False
    unseen.take_up()
    due = due_documents(limit=settings.LLM_PARALLEL + 4)
    if not due or running(timezone.now()) >= settings.LLM_PARALLEL:
        return False
    for document_id in due:
        lease = claim(DocumentEnrichment, document_id)
        if lease is not None:
            enrich(lease, stopping)
            return True
    return False


def enrich(lease: Lease, stopping: Callable[[], bool] = lambda: False) -> None:
    """Do one claimed job. Raises ``DatabaseError`` at most."""
    seen = ""
    try:
        read = _read(lease)
        if read is None:
            give_back(lease)
            return
        seen = read.document.content_hash
        job = _looked_at(lease, read)
        if job is None:
            return
        if stopping():
            give_back(lease)
            return
        _keep(job, _ask(job))
    except LeaseLostError:
        give_back(lease)
        log.info("document %s: the model's answer is no longer wanted", lease.pk)
    except Exception as fault:
        # Degradation point: whatever one answer does, the document is found as before and its row says what happened.
        if not isinstance(fault, ClientError | DocumentError | OSError):
            log.exception("document %s: enrichment failed unexpectedly", lease.pk)
        _fail(lease, fault, seen)


def _read(lease: Lease) -> _Read | None:
    """Row and body; None where there is nothing to look at (any more), or the file is to be looked at anew."""
    document = ApiDocument.objects.filter(READABLE, pk=lease.pk).first()
    if document is None:
        return None
    data = current_bytes(document)
    if storage.content_hash(data) == document.content_hash:
        return _Read(document, body_of(data))
    if absorb(document.pk) or not ApiDocument.objects.filter(pk=document.pk, revision=document.revision).exists():
        return None  # another revision by now: its own look
    detail = _("The file was edited on disk; the scan takes the edit in as a new revision.")
    raise DocumentError(detail, code="file_changed", status=409)


def _looked_at(lease: Lease, read: _Read) -> _Job | None:
    """What to ask; None where the job ends here: known already, nothing to write, or nothing to write about."""
    row = DocumentEnrichment.objects.filter(pk=lease.pk).first()
    if row is None:
        raise LeaseLostError
    document, body_hash = read.document, read.body_hash
    seen = {"seen_hash": document.content_hash, "body_hash": body_hash}
    wanted = wanted_fields(document.metadata, document.generated)
    lacking = lacking_fields(document.metadata, document.generated)
    known = row.body_hash == body_hash
    if not read.body.strip():
        finish(lease, **seen, reason=_NOTHING_TO_SAY)
        return None
    if known and row.asked == row.answered and (row.error_code == PARTIAL or not lacking):
        # The file is another one and its body is not: a header was edited, or a draft accepted.
        partial = lacking and row.error_code == PARTIAL
        left = {"state": LlmJob.State.FAILED, "error_code": PARTIAL, "reason": row.reason} if partial else {}
        finish(lease, **seen, **left)
        return None
    if not wanted:
        finish(lease, **seen)
        return None
    subject = Subject(document.file_path, document.title, document.metadata, read.body)
    targets = lacking if known and lacking else wanted
    return _Job(lease, document.content_hash, body_hash, subject, tuple(targets))


def _ask(job: _Job) -> StructuredAnswer:
    subject = job.subject
    document = f"{subject.title}\n{subject.file_path}\n{subject.body}"
    shape = shape_for(job.targets, language=subject.language, document=document, prompt=rules())
    return ask_structured(LeasedLLM(get_llm(), job.lease), messages_for(subject), shape)


def _keep(job: _Job, answer: StructuredAnswer) -> None:
    """Write the drafts. Where the file changed meanwhile and its body did not (a draft was accepted), they hold too."""
    for _look in range(_LOOKS):
        written = _write(job, answer)
        if written is not None:
            _log(job, answer, written)
            if settings.AUTO_ACCEPT_FRONTMATTER:
                _accept(job, [field for field in written if field in PROPOSED])
            return
        read = _read(job.lease)
        if read is None or read.body_hash != job.body_hash:
            break
        job = replace(job, content_hash=read.document.content_hash)
    give_back(job.lease)
    log.info("%s changed while the model wrote about it; it is asked again", job.subject.file_path)


@repeated_on_deadlock
def _write(job: _Job, answer: StructuredAnswer) -> list[str] | None:
    """Drafts and the job's end in one transaction: which fields were written, None where the file is another one."""
    made_at = timezone.now()
    with transaction.atomic(durable=True):
        document = locked(job.document_id)
        if document is None or document.status == ApiDocument.Status.DELETING:
            raise LeaseLostError
        if document.content_hash != job.content_hash:
            return None
        allowed = [field for field in wanted_fields(document.metadata, document.generated) if field in job.targets]
        generated = with_drafts(
            document.generated, answer.values, allowed, model=answer.model[:128], made_at=made_at.isoformat()
        )
        if not finish(job.lease, **_end_of(job, answer), model=answer.model[:128], made_at=made_at):
            raise LeaseLostError
        before = in_use(document.metadata, document.generated)
        document.generated = generated
        document.save(update_fields=["generated"])
        if in_use(document.metadata, generated) != before:
            mark_drafts(document.category)
        failpoint("enrichment.before_commit")
    return [field for field in allowed if field in answer.values]


def _end_of(job: _Job, answer: StructuredAnswer) -> Mapping[str, Any]:
    """DONE; FAILED with the reason where a field did not hold: what holds is kept, and a person may ask again.

    It is not asked again by itself: the model was shown its mistakes once already, and its answers hardly vary.
    """
    end: dict[str, Any] = {"seen_hash": job.content_hash, "body_hash": job.body_hash}
    if answer.problems:
        reason = f"The model's answer could only be used in part: {' '.join(answer.problems)}"[:500]
        end |= {"state": LlmJob.State.FAILED, "error_code": PARTIAL, "reason": reason}
    return end


def _accept(job: _Job, fields: list[str]) -> None:
    """``AUTO_ACCEPT_FRONTMATTER``: what was just written goes into the file, as no person's change."""
    if not fields:
        return
    try:
        accept(job.document_id, fields, revision=None, user=None)
    except (DocumentError, OSError) as fault:
        # Degradation point: they stay drafts, which a curator may accept.
        detail = getattr(fault, "detail", fault)
        log.warning("%s: the drafts could not be accepted at once: %s", job.subject.file_path, detail)


@repeated_on_deadlock
def _fail(lease: Lease, fault: Exception, seen: str) -> None:
    """The row says why. A file that is another one by now has not failed: it is due."""
    with transaction.atomic():
        document = locked(lease.pk)
        if document is not None and seen and document.content_hash != seen:
            give_back(lease)
            return
        fail(lease, fault, **({"seen_hash": seen} if seen else {}))


def _log(job: _Job, answer: StructuredAnswer, written: list[str]) -> None:
    path = job.subject.file_path
    log.info("%s: %s written by %s", path, ", ".join(written) or "nothing", answer.model)
    if answer.problems:
        log.warning("%s: the model's answer holds in part: %s", path, " ".join(answer.problems))
