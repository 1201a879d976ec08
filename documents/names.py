"""Names of files, categories and paths (DOC-6): which are taken, how they are written, which count as equal.

Pure: nothing here touches the disk. A name is kept in NFC and trimmed; two paths are one document when their casefolded
forms are equal (``path_key``), whatever the disk or the database would say of them; only twins that lie on the disk
already are told apart by their spelling (``exact_key``).
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass

from django.utils.translation import gettext as _

from documents.errors import DocumentError

PREFIX = "knowledge_base/"
"""Every ``file_path`` begins with this, whatever the folder is called (DOC-8)."""

UNCATEGORISED = "uncategorised"
"""The category of files at the root; no folder of this name exists."""

MAX_STEM = 200
"""Characters of a file name before ``.md``."""

MAX_SEGMENT_BYTES = 255
"""What ext4, XFS, NTFS and APFS take for one path segment, in UTF-8: about 84 Chinese characters with ``.md``."""

MAX_CATEGORY = 64
MAX_PATH = 700
"""Characters of a whole ``file_path`` (its column)."""

_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{number}" for device in ("com", "lpt") for number in "0123456789¹²³"]
)
# Letters that are drawn as nothing: a name with one would look like another document's.
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


@dataclass(frozen=True)
class ScannedPath:
    """A file found on disk: ``file_path`` as stored (NFC, with the prefix), its category and file name.

    The disk may spell the name in another Unicode form; open the file by the path that the walk found.
    """

    file_path: str
    category: str
    file_name: str


def check_file_name(name: str) -> str:
    """The name to store (NFC, trimmed) of an uploaded file; raises DocumentError (400) with the reason."""
    name = unicodedata.normalize("NFC", name).strip()
    if not name:
        raise _refused("file_name_empty", _("The file has no name. Give it one that ends in .md."))
    _check_segment(name, field="file")
    stem, dot, suffix = name.rpartition(".")
    if not dot or suffix.lower() != "md":
        raise _refused("file_type", _("Only Markdown files are taken: the name must end in .md."))
    if len(stem) > MAX_STEM:
        raise _refused(
            "file_name_too_long",
            _("The file name has %(length)d characters before .md; at most %(limit)d are taken.")
            % {"length": len(stem), "limit": MAX_STEM},
        )
    return name


def check_category(name: str) -> str:
    """The category to store (NFC, trimmed): one folder name of letters, digits, ``_``, ``-``, inner spaces and dots.

    Upper and lower case are kept; whoever saves compares with the existing ones by ``category_key``. Raises
    DocumentError (400).
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not name:
        raise _refused("category_empty", _("Choose a category."), "category")
    _check_segment(name, field="category")
    if len(name) > MAX_CATEGORY:
        raise _refused(
            "category_too_long",
            _("The category has %(length)d characters; at most %(limit)d are taken.")
            % {"length": len(name), "limit": MAX_CATEGORY},
            "category",
        )
    if not all(_is_category_character(character) for character in name) or name.endswith("."):
        raise _refused(
            "category_characters",
            _("A category is one folder name: letters, digits, hyphens, underscores, and spaces or dots inside it."),
            "category",
        )
    return UNCATEGORISED if category_key(name) == UNCATEGORISED else name


def category_key(category: str) -> str:
    """Categories with equal keys are one domain: ``API`` and ``api``."""
    return _folded(category.strip())


def document_path(category: str, file_name: str) -> str:
    """``knowledge_base/api/x.md``; of ``uncategorised``, ``knowledge_base/x.md``. Both parts already checked."""
    if category == UNCATEGORISED:
        return PREFIX + file_name
    return f"{PREFIX}{category}/{file_name}"


def path_key(file_path: str) -> str:
    """SHA-256 (64 hexadecimal digits) of the casefolded NFC path: ``straße.md`` and ``STRASSE.md`` are one document."""
    return hashlib.sha256(_folded(file_path).encode("utf-8", "surrogatepass")).hexdigest()


def exact_key(file_path: str) -> str:
    """SHA-256 (64 hexadecimal digits) of the NFC path as it is spelled: tells twins by case apart."""
    return hashlib.sha256(unicodedata.normalize("NFC", file_path).encode("utf-8", "surrogatepass")).hexdigest()


def check_scanned_path(relative: str) -> ScannedPath:
    """The stored path of a file found under the folder at ``relative`` (``/``-separated, no leading slash).

    The first folder is the category, deeper ones stay part of the path: ``api/v2/x.md`` is a document of ``api``. The
    same rules hold as for an upload, except that nothing is trimmed: a name on disk is what it is. Raises
    DocumentError.
    """
    segments = unicodedata.normalize("NFC", relative).split("/")
    *folders, file_name = segments
    for segment in segments:
        if segment != segment.strip() or not segment:
            raise _refused("name_blank", _("A file or folder name is empty, or begins or ends with a space."))
    for folder in folders:
        _check_segment(folder, field="file")
    category = check_category(folders[0]) if folders else UNCATEGORISED
    if folders and category == UNCATEGORISED:
        raise _refused(
            "category_reserved",
            _("No folder may be called “uncategorised”: files without a category lie at the root."),
            "category",
        )
    file_path = PREFIX + "/".join([*folders, check_file_name(file_name)])
    if len(file_path) > MAX_PATH:
        raise _refused(
            "path_too_long", _("The path is too long: at most %(limit)d characters are taken.") % {"limit": MAX_PATH}
        )
    return ScannedPath(file_path=file_path, category=category, file_name=file_name)


def _check_segment(name: str, *, field: str) -> None:
    """Refuse what cannot be one harmless path segment on every system. ``name`` is NFC and trimmed."""
    if any(_is_unseen(character) for character in name):
        raise _refused(
            "name_control_characters",
            _("The name holds control or invisible characters. Rename it without them."),
            field,
        )
    if name in (".", "..") or any(character in name for character in "/\\:"):
        raise _refused("name_path", _("A name may not hold a path: no “/”, “\\”, “:” and no “..” alone."), field)
    if name.startswith("."):
        raise _refused("name_hidden", _("Names that begin with a dot are hidden files and are not taken."), field)
    if name.split(".", 1)[0].strip().casefold() in _RESERVED:
        raise _refused("name_reserved", _("This name is reserved by Windows. Choose another one."), field)
    size = len(name.encode("utf-8"))
    if size > MAX_SEGMENT_BYTES:
        raise _refused(
            "name_too_long",
            _("The name takes %(size)d bytes in UTF-8; the disk takes at most %(limit)d (about 84 Chinese characters).")
            % {"size": size, "limit": MAX_SEGMENT_BYTES},
            field,
        )


def _is_unseen(character: str) -> bool:
    """Control, format (zero-width, bidirectional), surrogate, unassigned and line-separating characters."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") or character in _INVISIBLE_LETTERS


def _is_category_character(character: str) -> bool:
    return character in "_- ." or unicodedata.category(character)[0] in "LMN"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _refused(code: str, detail: str, field: str = "file") -> DocumentError:
    return DocumentError(detail, code=code, field=field)
