"""Tables of the knowledge base: documents and their chunks, domains, recorded tool calls, API keys.

The protocol behind the revision and lease fields is in ``docs/decisions/0002-the-row-is-the-truth.md``.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from rest_framework_api_key.models import AbstractAPIKey


class ChangeCounter(models.Model):
    """A counter bumped inside the transaction of each visible change; the row lock orders the commits."""

    name = models.CharField(max_length=32, primary_key=True)
    value = models.BigIntegerField(default=0)

    class Meta:
        db_table = "change_counter"

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class ApiDocument(models.Model):
    """One Markdown document of the knowledge base."""

    class Status(models.TextChoices):
        PENDING = "PENDING", _("waiting")
        INDEXING = "INDEXING", _("being indexed")
        INDEXED = "INDEXED", _("indexed")
        FAILED = "FAILED", _("failed")
        DELETING = "DELETING", _("being deleted")

    file_path = models.CharField(_("path"), max_length=700)
    # SHA-256 of the casefolded NFC path: no database collation decides which names are equal.
    path_key = models.CharField(max_length=64, editable=False)
    # Empty, but for a file on disk whose name another document has in other case: SHA-256 of its very spelling.
    twin_key = models.CharField(max_length=64, blank=True, default="", editable=False)
    file_name = models.CharField(_("file name"), max_length=255)
    category = models.CharField(_("domain"), max_length=64, db_index=True)
    title = models.CharField(_("title"), max_length=500)
    # The file's own frontmatter, JSON; null where there is none or it is malformed (DOC-2).
    metadata = models.JSONField(_("metadata"), null=True, blank=True)
    # Why the frontmatter was not read, in words for the curator; empty when all is well (FM-3).
    frontmatter_problem = models.CharField(_("frontmatter problem"), max_length=500, blank=True, default="")
    # What a language model proposed, apart from the author's words: {field: {"value": …, "state": …}}.
    generated = models.JSONField(_("generated fields"), default=dict, blank=True)
    content_hash = models.CharField(_("SHA-256"), max_length=64, db_index=True)
    size = models.BigIntegerField(_("size in bytes"), default=0)
    enabled = models.BooleanField(_("enabled"), default=True)
    # Set when the file vanished from the disk: the document is hidden, not forgotten (DOC-7).
    missing_since = models.DateTimeField(_("file missing since"), null=True, blank=True)

    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.PENDING, db_index=True)
    status_reason = models.CharField(_("reason"), max_length=500, blank=True, default="")
    error_code = models.CharField(max_length=64, blank=True, default="")
    revision = models.PositiveIntegerField(_("revision"), default=0)
    published_revision = models.PositiveIntegerField(default=0)
    indexed_revision = models.PositiveIntegerField(default=0)
    indexed_hash = models.CharField(max_length=64, blank=True, default="")
    chunk_count = models.PositiveIntegerField(_("chunks"), default=0)
    # Whether the indexed text is in a CJK script: words of one script do not find texts in another.
    in_cjk = models.BooleanField(default=False, editable=False)
    seq = models.BigIntegerField(default=0, db_index=True)

    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)

    uploaded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, verbose_name=_("uploaded by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), db_index=True)
    indexed_at = models.DateTimeField(_("indexed"), null=True, blank=True)

    class Meta:
        db_table = "api_document"
        ordering: ClassVar = ["id"]
        verbose_name = _("document")
        verbose_name_plural = _("documents")
        indexes: ClassVar = [models.Index(fields=["status", "next_attempt_at"], name="document_due")]
        constraints: ClassVar = [models.UniqueConstraint(fields=["path_key", "twin_key"], name="document_path")]

    def __str__(self) -> str:
        return self.title or self.file_path


class DocumentChunk(models.Model):
    """A chunk's text as it was embedded; written in the transaction that sets INDEXED, removed with older vectors."""

    document = models.ForeignKey(ApiDocument, on_delete=models.CASCADE, related_name="chunks")
    revision = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    section = models.CharField(max_length=500, blank=True, default="")
    heading_path = models.JSONField(default=list)
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    text = models.TextField()
    # The distinct terms that the lexical search finds it by: ids as little-endian unsigned ints of 4 bytes, ascending.
    terms = models.BinaryField(default=bytes)

    class Meta:
        db_table = "document_chunk"
        ordering: ClassVar = ["document_id", "revision", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["document", "revision", "number"], name="document_chunk_key")
        ]

    def __str__(self) -> str:
        return f"{self.document_id}:{self.revision}:{self.number}"


class TermCount(models.Model):
    """In how many chunks a term stands: what the lexical search weighs a question's words by. Term -1: all chunks."""

    term = models.BigIntegerField(primary_key=True)
    chunks = models.BigIntegerField(default=0)

    class Meta:
        db_table = "term_count"

    def __str__(self) -> str:
        return f"{self.term}: {self.chunks}"


class DocumentHistory(models.Model):
    """A replaced or deleted revision whose bytes are kept under ``.history/`` for ``TRASH_DAYS`` (DOC-12)."""

    class Reason(models.TextChoices):
        REPLACED = "replaced", _("replaced")
        DELETED = "deleted", _("deleted")

    # No foreign key: history outlives its document.
    document_id = models.BigIntegerField(db_index=True)
    file_path = models.CharField(_("path"), max_length=700)
    revision = models.PositiveIntegerField(_("revision"))
    content_hash = models.CharField(max_length=64)
    size = models.BigIntegerField(_("size in bytes"))
    stored_name = models.CharField(max_length=200)
    reason = models.CharField(_("reason"), max_length=10, choices=Reason.choices)
    created_at = models.DateTimeField(_("kept since"), auto_now_add=True, db_index=True)
    created_by = models.CharField(_("by"), max_length=150, blank=True, default="")
    # What else a deleted document was, for its return (``documents/former_life.py``); empty for a replaced revision.
    state = models.JSONField(default=dict, blank=True, editable=False)

    class Meta:
        db_table = "document_history"
        ordering: ClassVar = ["-id"]
        verbose_name = _("earlier revision")
        verbose_name_plural = _("earlier revisions")

    def __str__(self) -> str:
        return f"{self.file_path} #{self.revision}"


class DeletedDocument(models.Model):
    """A tombstone: tells keyword indexes of other processes, by ``seq``, that a row has gone. Kept for some days."""

    document_id = models.BigIntegerField(primary_key=True)
    seq = models.BigIntegerField(db_index=True)
    deleted_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        db_table = "deleted_document"

    def __str__(self) -> str:
        return f"document {self.document_id} is gone"


class KnowledgeDomain(models.Model):
    """A category with what the Planner is told of it (SPEC section 4)."""

    class TextSource(models.TextChoices):
        CURATOR = "curator", _("curator")
        MODEL = "model", _("model")
        PLAIN = "plain", _("summary")

    domain_id = models.CharField(_("domain"), max_length=64, unique=True)
    description = models.CharField(_("description"), max_length=256, blank=True, default="")
    when_to_retrieve = models.TextField(_("when to retrieve"), blank=True, default="")
    document_count = models.IntegerField(_("documents"), default=0)
    description_source = models.CharField(max_length=10, choices=TextSource.choices, default=TextSource.PLAIN)
    when_to_retrieve_source = models.CharField(max_length=10, choices=TextSource.choices, default=TextSource.PLAIN)
    # Bumped in the transaction of each change of the domain's documents; a recomputation is written only if unmoved.
    dirty_seq = models.BigIntegerField(default=0)
    computed_seq = models.BigIntegerField(default=0)
    # When it was last touched: many changes at once are waited out, then computed once.
    changed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # When the first change came that is not computed yet: a steady stream of changes is not waited out for ever.
    dirty_since = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        db_table = "knowledge_domain"
        ordering: ClassVar = ["domain_id"]
        verbose_name = _("knowledge domain")
        verbose_name_plural = _("knowledge domains")

    def __str__(self) -> str:
        return self.domain_id


class LlmJob(models.Model):
    """What a language model is to write, with its lease: the row is the job (``documents/llm_jobs.py``)."""

    class State(models.TextChoices):
        WAITING = "WAITING", _("waiting")
        RUNNING = "RUNNING", _("being written")
        DONE = "DONE", _("written")
        FAILED = "FAILED", _("failed")

    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.WAITING, db_index=True)
    # Why it failed, in words for the curator; beside what was written, which of its fields did not hold.
    reason = models.CharField(_("reason"), max_length=500, blank=True, default="")
    error_code = models.CharField(max_length=64, blank=True, default="")
    model = models.CharField(_("model"), max_length=128, blank=True, default="")
    made_at = models.DateTimeField(_("written"), null=True, blank=True)
    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    # How often a person asked for new texts, and up to which of these the model has answered.
    asked = models.PositiveIntegerField(default=0)
    answered = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


class DocumentEnrichment(LlmJob):
    """What a language model is asked about one document (SPEC section 3, end). It never touches ``status``."""

    document = models.OneToOneField(
        ApiDocument, on_delete=models.CASCADE, primary_key=True, related_name="enrichment", verbose_name=_("document")
    )
    # The file that was looked at last: another one is due for a look.
    seen_hash = models.CharField(max_length=64, blank=True, default="")
    # SHA-256 of the body that the texts were made from: only another body asks the model again.
    body_hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        db_table = "document_enrichment"
        indexes: ClassVar = [models.Index(fields=["state", "next_attempt_at"], name="enrichment_due")]

    def __str__(self) -> str:
        return f"document {self.document_id}: {self.state}"


class DomainAggregation(LlmJob):
    """What a language model is asked about one domain (DOM-2): the wording of when to search it."""

    domain = models.OneToOneField(
        KnowledgeDomain,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="aggregation",
        verbose_name=_("domain"),
    )
    # The ``dirty_seq`` that the model's text stands for: it is written only where nothing newer happened.
    seen_seq = models.BigIntegerField(default=0)
    # SHA-256 of what the model was told when it wrote the present text: the same again asks nothing.
    input_hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        db_table = "domain_aggregation"
        indexes: ClassVar = [models.Index(fields=["state", "next_attempt_at"], name="aggregation_due")]

    def __str__(self) -> str:
        return f"domain {self.domain_id}: {self.state}"


class ReconcileRun(models.Model):
    """One comparison of file, row, keyword index and vectors (``documents/reconcile.py``), with what it found."""

    began_at = models.DateTimeField()
    seconds = models.FloatField(default=0)
    by = models.CharField(max_length=150)
    # Whether the costly checks were made too: every file's hash, the vectors, the terms.
    full = models.BooleanField(default=False)
    found = models.PositiveIntegerField(default=0)
    wrong = models.PositiveIntegerField(default=0)
    # The first of them, without words: {"kind", "subject", "mended", "details"}.
    findings = models.JSONField(default=list)

    class Meta:
        db_table = "reconcile_run"
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"reconcile #{self.pk}: {self.found} found, {self.wrong} wrong"


class ToolInvocation(models.Model):
    """One tool call, whoever made it (LK-3). ``run_id`` and ``session_id`` are plain text: no key points upwards."""

    class Channel(models.TextChoices):
        CHAT = "chat", _("chat page")
        API = "api", "API"
        OPENAI = "openai", "OpenAI"
        MCP = "mcp", "MCP"
        ADMIN = "admin", _("admin")
        CLI = "cli", _("command line")
        DEMO = "demo", _("demo")

    run_id = models.CharField(max_length=64, blank=True, default="", db_index=True)
    session_id = models.CharField(max_length=128, blank=True, default="", db_index=True)
    principal = models.CharField(max_length=100, blank=True, default="")
    channel = models.CharField(_("channel"), max_length=10, choices=Channel.choices)
    model = models.CharField(_("model"), max_length=128, blank=True, default="")
    tool_name = models.CharField(_("tool"), max_length=64)
    arguments = models.JSONField(default=dict)
    # The query again as a column: what is listed and grouped is no JSON path.
    query = models.TextField(_("query"), blank=True, default="")
    outline = models.JSONField(default=dict)
    found = models.BooleanField(_("found"), null=True)
    relevance_level = models.CharField(_("level"), max_length=20, null=True, blank=True)  # noqa: DJ001 (null is a miss)
    dedup_reason = models.CharField(_("dedup reason"), max_length=32, null=True, blank=True)  # noqa: DJ001 (SPEC)
    domain = models.CharField(_("domain"), max_length=64, blank=True, default="")
    document_id = models.BigIntegerField(null=True, blank=True)
    document_path = models.CharField(_("document"), max_length=700, blank=True, default="")
    l0_match_count = models.IntegerField(default=0)
    l1_top_similarity = models.FloatField(_("similarity"), null=True, blank=True)
    duration_ms = models.FloatField(_("milliseconds"), default=0)
    l0_ms = models.FloatField(null=True, blank=True)
    embed_ms = models.FloatField(null=True, blank=True)
    l1_ms = models.FloatField(null=True, blank=True)
    memory_ms = models.FloatField(null=True, blank=True)
    degraded = models.CharField(_("degraded"), max_length=200, blank=True, default="")
    error = models.TextField(_("error"), blank=True, default="")
    retrieval_details = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(_("time"), auto_now_add=True, db_index=True)

    class Meta:
        db_table = "tool_invocation"
        ordering: ClassVar = ["-id"]
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        indexes: ClassVar = [models.Index(fields=["tool_name", "created_at"], name="invocation_by_time")]

    def __str__(self) -> str:
        return f"{self.tool_name} #{self.pk}"


class ToolInvocationDocument(models.Model):
    """A document served by one call. It keeps its own words, so that it outlives the document."""

    class ServedAs(models.TextChoices):
        PRIMARY = "primary", _("primary")
        SUPPLEMENT = "supplement", _("supplement")

    invocation = models.ForeignKey(ToolInvocation, on_delete=models.CASCADE, related_name="documents")
    document_id = models.BigIntegerField(db_index=True)
    file_path = models.CharField(max_length=700)
    domain = models.CharField(max_length=64)
    role = models.CharField(max_length=10, choices=ServedAs.choices)
    section = models.CharField(max_length=500, blank=True, default="")
    match_type = models.CharField(max_length=16)
    similarity = models.FloatField(null=True, blank=True)

    class Meta:
        db_table = "tool_invocation_document"
        ordering: ClassVar = ["invocation_id", "id"]

    def __str__(self) -> str:
        return f"{self.file_path} ({self.role})"


class ApiKey(AbstractAPIKey):
    """A program's key: only its hash is kept. ``scopes`` is a space-separated subset of read, chat, write, ops."""

    scopes = models.CharField(_("scopes"), max_length=40, default="read")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="api_keys",
        verbose_name=_("user"),
        help_text=_("The key acts and remembers as this person; without one, as itself."),
    )

    class Meta(AbstractAPIKey.Meta):
        db_table = "api_key"
        verbose_name = _("API key")  # type: ignore[assignment]
        verbose_name_plural = _("API keys")  # type: ignore[assignment]
