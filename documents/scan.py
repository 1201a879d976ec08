"""The scan: compares the knowledge base folder with the rows (DOC-7, DOC-8).

Files without a row are adopted, edited ones become a new revision, moved ones keep their row, vanished ones are hidden.
The files are on disk already: no staging, no sync. A document that is being deleted is never taken from the disk again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from django.db import transaction
from django.utils import timezone

from documents import storage
from documents.counters import bump
from documents.deletion import mark_deleting
from documents.disk_changes import absorb, hide, move, read_found, show_again
from documents.domains import mark_dirty
from documents.errors import DocumentError
from documents.failpoints import failpoint
from documents.models import ApiDocument, KnowledgeDomain
from documents.names import PREFIX, category_key
from documents.publishing import drop_stale_staged, publish_leftovers
from documents.reading import Reading
from documents.region import Region
from documents.scan_lock import alone_on_the_site
from documents.scan_report import ScanReport, scan_state
from documents.transactions import repeated_on_deadlock
from documents.twins import free_twin_key
from documents.wakeup import wake_worker
from documents.walk import FoundFile, Refused, walk

__all__ = ["ScanReport", "scan", "scan_state"]
log = logging.getLogger("documents.scan")
BATCH = 200
_MASS_LEAST = 10
_TOGETHER = timedelta(seconds=60)
"""What vanishes within so long is one disappearance, however many scans see a part of it, and may turn up elsewhere."""
_running = threading.Lock()


@dataclass(frozen=True)
class _Row:
    """What the comparison needs of a document."""

    pk: int
    file_path: str
    key: str
    content_hash: str
    size: int
    settled: bool
    deleting: bool
    missing: bool
    just_hidden: bool


@dataclass(frozen=True)
class _Candidate:
    """A file that becomes a document."""

    file: FoundFile
    digest: str
    size: int
    reading: Reading


def scan(*, prune: bool = False, dry_run: bool = False, confirmed: bool = False) -> ScanReport:
    """Compare folder and rows, and take in what changed on disk.

    ``prune`` deletes the documents whose file is missing; ``confirmed`` lets that happen to more than half of them at
    once too. ``dry_run`` only counts. One scan at a time on the site; beside uploads and deletions it is safe. Never
    raises for what it finds on disk.
    """
    with _running, alone_on_the_site():
        began = time.monotonic()
        report = ScanReport(dry_run=dry_run)
        if not dry_run:
            publish_leftovers()
            drop_stale_staged()
        _scan(report, prune=prune, confirmed=confirmed and prune)
        report.seconds = time.monotonic() - began
    log.info("scan%s: %s", " (dry run)" if dry_run else "", report)
    return report


def scan_part(within: Region) -> ScanReport:
    """The same for a part of the folder, by the same rules. What a crash left between commit and publication stays: it
    is not this part's.

    While a disappearance is held back it looks at the whole: a part of the part that is gone would seem harmless.
    """
    with _running, alone_on_the_site():
        began = time.monotonic()
        report = ScanReport()
        _scan(report, within if scan_state().status == "ok" else None)
        report.seconds = time.monotonic() - began
    log.log(logging.INFO if report.found_something else logging.DEBUG, "scan of what was touched: %s", report)
    return report


def _scan(report: ScanReport, within: Region | None = None, *, prune: bool = False, confirmed: bool = False) -> None:
    every_row = _rows()
    failpoint("scan.began")
    if not _folder_ready(report, has_rows=any(not row.deleting for row in every_row.values()), confirmed=confirmed):
        return
    rows = every_row if within is None else _part_of(every_row, within)
    found, unreadable = _look(report, within)
    failpoint("scan.looked")
    _follow_spelling(rows, found)
    fresh = [file for path, file in found.items() if path not in rows]
    unseen = [
        row for path, row in rows.items()
        if path not in found and row.settled and not row.deleting and not row.file_path.startswith(unreadable)
    ]  # fmt: skip
    hidden_before = [row for row in every_row.values() if row.just_hidden and row.file_path not in found]
    moved = _take_moves(report, fresh, [row for row in unseen if not row.missing] + hidden_before)
    _adopt(report, (file for file in fresh if file.file_path not in moved))
    _compare(report, rows, found)
    gone = [row for row in unseen if row.pk not in moved.values() and not row.missing]
    before = [row for row in hidden_before if row.pk not in moved.values()]
    present = sum(not row.deleting and not row.missing for row in every_row.values())
    _hide(report, gone, before, total=present + len(before), confirmed=confirmed)
    if prune:
        _prune(report, [row for row in unseen if row.missing or row in gone])
    # Of all files only a look at all of them can say that they are back.
    if not report.dry_run and (within is None or report.warning):
        report.remember()


def _rows() -> dict[str, _Row]:
    """The documents by path."""
    columns = ("path_key", "pk", "file_path", "content_hash", "size")
    states = ("revision", "published_revision", "status", "missing_since")
    rows: dict[str, _Row] = {}
    lately = timezone.now() - _TOGETHER
    documents = ApiDocument.objects.order_by("pk").values_list(*columns, *states)
    for key, pk, path, digest, size, revision, published, status, missing in documents.iterator(chunk_size=2_000):
        deleting = status == ApiDocument.Status.DELETING
        settled, just_hidden = revision == published, missing is not None and missing > lately and not deleting
        rows[path] = _Row(pk, path, key, digest, size, settled, deleting, missing is not None, just_hidden)
    return rows


def _part_of(rows: dict[str, _Row], within: Region) -> dict[str, _Row]:
    return {path: row for path, row in rows.items() if within.holds(path.removeprefix(PREFIX))}


def _folder_ready(report: ScanReport, *, has_rows: bool, confirmed: bool) -> bool:
    """Whether there is a folder to walk. Missing on a first start, it is made; missing later, nothing is touched."""
    base = storage.base()
    if base.is_dir():
        return True
    if has_rows and not confirmed:
        report.folder_missing = True
        log.warning("scan: %s is missing. %s", base, report.warning)
        if not report.dry_run:
            report.remember()
        return False
    if report.dry_run:
        return False
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        log.error("scan: the folder %s cannot be made (%s); set KNOWLEDGE_BASE_PATH to another one", base, fault)
        return False
    log.info("scan: the folder %s was missing and is made", base)
    return True


def _look(report: ScanReport, within: Region | None) -> tuple[dict[str, FoundFile], tuple[str, ...]]:
    """The documents' files by path, and the path prefixes that cannot be seen now."""
    found: dict[str, FoundFile] = {}
    unreadable: list[str] = []
    spellings = {category_key(name): name for name in KnowledgeDomain.objects.values_list("domain_id", flat=True)}
    try:
        for item in walk(storage.base(), within):
            if isinstance(item, Refused):
                _skip(report, item.relative, item.reason)
                if item.unreadable:
                    unreadable.append(PREFIX + item.relative)
                continue
            report.files += 1
            _place(report, item, found, spellings)
    except OSError as fault:
        log.error("scan: %s cannot be read: %s", storage.base(), fault)
        unreadable.append(PREFIX)
    return found, tuple(unreadable)


def _place(report: ScanReport, file: FoundFile, found: dict[str, FoundFile], spellings: dict[str, str]) -> None:
    """Take a file into ``found``, or skip it where its name cannot be told from another's."""
    spelling = spellings.setdefault(category_key(file.category), file.category)
    if spelling != file.category:
        _skip(report, file.file_path, f"its folder differs from the domain {spelling} only by case or form; rename it")
        return
    if file.file_path in found:
        _skip(report, file.file_path, "the same name is there twice, in two Unicode forms; rename one")
        if file.is_spelled_so:
            found[file.file_path] = file
    else:
        found[file.file_path] = file


def _follow_spelling(rows: dict[str, _Row], found: dict[str, FoundFile]) -> None:
    """A file whose name changed only by case or form belongs to the row that has no file otherwise."""
    lost: dict[str, list[str]] = {}
    for path, row in rows.items():
        if path not in found:
            lost.setdefault(row.key, []).append(path)
    for path, file in found.items():
        if path not in rows and lost.get(file.key):
            rows[path] = rows.pop(lost[file.key].pop(0))


def _take_moves(report: ScanReport, fresh: list[FoundFile], vanished: list[_Row]) -> dict[str, int]:
    """One vanished and one new path with the same bytes are a move: paths of such files, with their document."""
    sizes = {row.size for row in vanished}
    by_hash: dict[str, tuple[list[FoundFile], list[_Row]]] = {row.content_hash: ([], []) for row in vanished}
    for row in vanished:
        by_hash[row.content_hash][1].append(row)
    for file in fresh if vanished else ():
        try:
            digest = storage.hash_of_file(file.path) if file.path.stat().st_size in sizes else ""
        except OSError:
            continue  # told when it is read
        if digest in by_hash:
            by_hash[digest][0].append(file)
    moved: dict[str, int] = {}
    for files, gone in by_hash.values():
        if len(files) == len(gone) == 1 and (report.dry_run or move(gone[0].pk, files[0])):
            moved[files[0].file_path] = gone[0].pk
            report.moved += 1
    return moved


def _adopt(report: ScanReport, files: Iterable[FoundFile]) -> None:
    """Rows for files that have none, in batches; the worker begins with the first while the next is read."""
    remaining = iter(files)
    while batch := list(islice(remaining, BATCH)):
        candidates = [one for file in batch if (one := _candidate(report, file)) is not None]
        failpoint("scan.read")
        report.new += len(candidates) if report.dry_run else _insert(candidates)
        if candidates and not report.dry_run:
            wake_worker()


def _candidate(report: ScanReport, file: FoundFile) -> _Candidate | None:
    try:
        data, reading = read_found(file.path, file.file_path)
    except DocumentError as refusal:
        _skip(report, file.file_path, refusal.detail)
    except FileNotFoundError:
        pass  # gone since the walk
    except OSError as fault:
        _skip(report, file.file_path, f"cannot be read: {fault.strerror or fault}")
    else:
        return _Candidate(file, storage.content_hash(data), len(data), reading)
    return None


@repeated_on_deadlock
def _insert(candidates: list[_Candidate]) -> int:
    with transaction.atomic(durable=True):
        for category in sorted({one.file.category for one in candidates}):
            mark_dirty(category)
        # A deletion takes the counter before it unlinks: behind it, a file that was deleted is seen to be gone.
        seq = bump()
        there = [one for one in candidates if one.file.path.exists()]
        rows = _new_rows(there, seq)
        # An upload of the same name may come in between: its row stays.
        ApiDocument.objects.bulk_create(rows, ignore_conflicts=True)
        failpoint("scan.before_commit")
    return len(rows)


def _new_rows(candidates: list[_Candidate], seq: int) -> list[ApiDocument]:
    """Rows for the files that have none. The second of twins by case is told apart by its own spelling."""
    known = ApiDocument.objects.filter(path_key__in=[one.file.key for one in candidates])
    paths: set[str] = set()
    taken: dict[str, set[str]] = {}
    for key, twin_key, path in known.values_list("path_key", "twin_key", "file_path"):
        paths.add(path)
        taken.setdefault(key, set()).add(twin_key)
    rows = []
    for one in candidates:
        if one.file.file_path not in paths:
            twin_keys = taken.setdefault(one.file.key, set())
            rows.append(_new_row(one, seq, free_twin_key(one.file.file_path, taken=twin_keys)))
            twin_keys.add(rows[-1].twin_key)
    return rows


def _new_row(one: _Candidate, seq: int, twin_key: str) -> ApiDocument:
    return ApiDocument(
        file_path=one.file.file_path,
        path_key=one.file.key,
        twin_key=twin_key,
        file_name=one.file.file_name,
        category=one.file.category,
        title=one.reading.title,
        metadata=one.reading.metadata,
        frontmatter_problem=one.reading.problem,
        content_hash=one.digest,
        size=one.size,
        revision=1,
        published_revision=1,
        seq=seq,
        updated_at=timezone.now(),
    )


def _compare(report: ScanReport, rows: dict[str, _Row], found: dict[str, FoundFile]) -> None:
    """Known documents: is the file the row's?"""
    changed = 0
    for file, row in _pairs(rows, found):
        try:
            same = file.path.stat().st_size == row.size and storage.hash_of_file(file.path) == row.content_hash
            if same and not row.missing and file.file_path == row.file_path:
                continue
            if report.dry_run:
                result = "reappeared" if row.missing else "moved" if same else "changed"
            elif same and file.file_path != row.file_path:
                result = "moved" if move(row.pk, file) else ""
            else:
                result = absorb(row.pk, file.path)
        except FileNotFoundError:
            continue  # gone since the walk; the next scan hides it
        except OSError as fault:
            _skip(report, file.file_path, f"cannot be read: {fault.strerror or fault}")
            continue
        if result:
            changed += 1
            setattr(report, result, getattr(report, result) + 1)
    if changed:
        wake_worker()


def _pairs(rows: dict[str, _Row], found: dict[str, FoundFile]) -> Iterator[tuple[FoundFile, _Row]]:
    for path, file in found.items():
        row = rows.get(path)
        if row is not None and row.settled and not row.deleting:
            yield file, row


def _hide(report: ScanReport, gone: list[_Row], before: list[_Row], *, total: int, confirmed: bool) -> None:
    """Hide what is gone, unless it is most of ``total``: then what went a moment ``before`` is shown again, too."""
    vanished = len(before) + len(gone)
    if gone and total >= _MASS_LEAST and 2 * vanished > total and not confirmed:
        report.held_back = vanished
        log.warning("scan: %s", report.warning)
        for row in before:
            if not report.dry_run:
                show_again(row.pk)
        return
    for row in gone:
        if report.dry_run or hide(row.pk):
            report.vanished += 1
            log.warning("%s: file missing; the document is hidden until it is back", row.file_path)
    if gone:
        wake_worker()


def _prune(report: ScanReport, gone: list[_Row]) -> None:
    """Delete what is missing, held-back ones excepted; the worker finishes each deletion."""
    for row in gone:
        hidden = report.dry_run or ApiDocument.objects.filter(pk=row.pk, missing_since__isnull=False).exists()
        if hidden and not (report.held_back and not row.missing) and (report.dry_run or mark_deleting(row.pk)):
            report.pruned += 1
            log.info("%s: removed, its file is missing", row.file_path)
    if report.pruned:
        wake_worker()


def _skip(report: ScanReport, path: str, reason: str) -> None:
    report.skipped.append((path, reason))
    log.warning("scan: %s is not taken: %s", path, reason)
