"""What a document operation refuses: a stable code, a sentence for people, the field and the HTTP status."""

from __future__ import annotations


class DocumentError(Exception):
    """A refusal that the caller can act on.

    ``detail`` is one translated sentence that says what to do, ``code`` is stable and for programs, ``field`` the name
    of the input at fault ("" when it is none in particular), ``status`` the HTTP status that a door answers with.
    """

    def __init__(self, detail: str, *, code: str, field: str = "", status: int = 400) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.field = field
        self.status = status
