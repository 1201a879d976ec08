"""``manage.py lookup QUERY``: one lookup, as an agent's tool makes it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from agents.lookup_api import LOCAL_PRINCIPAL
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool, text_for_model
from documents.local_server import LocalServerError, call_running_server
from documents.models import ToolInvocation
from retrieval.action_memory import is_valid_scope


class Command(BaseCommand):
    help = "Look something up in the knowledge base, exactly as an agent does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("query", metavar="QUERY", help="what to look up")
        parser.add_argument("--session", metavar="ID", default="", help="remember under this id what was given")
        parser.add_argument("--section", metavar="TITLE", default="", help="one section of the document found")
        parser.add_argument("--json", action="store_true", help="print exactly what a model sees")

    def handle(self, *args: Any, **options: Any) -> None:
        session = options["session"]
        if session and not is_valid_scope(session):
            raise CommandError("--session takes 1 to 128 letters, digits, or the characters . _ : -")
        result = _look_up(query=options["query"], session=session, section=options["section"])
        if options["json"]:
            self.stdout.write(text_for_model(result))
        else:
            self.stdout.write("\n".join(_outline(result)))


def _look_up(*, query: str, session: str, section: str) -> dict[str, Any]:
    """Through the running server where one holds the embedded store, else in this process."""
    arguments = {"query": query} | ({"section_title": section} if section else {})
    try:
        answered = call_running_server("/internal/lookup/", arguments | ({"session_id": session} if session else {}))
    except LocalServerError as error:
        raise CommandError(str(error)) from error
    if answered is not None:
        return answered
    context = ToolContext(
        principal=LOCAL_PRINCIPAL,
        channel=ToolInvocation.Channel.CLI,
        scope=session or None,
        session_id=session,
    )
    try:
        reply = call_tool(LOOKUP_TOOL, arguments, context)
    except DatabaseError as error:
        raise CommandError(f"The database does not answer ({error}). Run: python manage.py migrate") from error
    if reply.error_code:
        raise CommandError(reply.error)
    return reply.content


def _outline(result: dict[str, Any]) -> list[str]:
    lines = [f"found: {'yes' if result['found'] else 'no'}   level: {result['relevanceLevel'] or '-'}"]
    if result["completenessHint"]:
        lines.append(result["completenessHint"])
    if result["message"]:
        lines.append(result["message"])
    if result["retrievedDomainsThisSession"]:
        lines.append("domains: " + ", ".join(result["retrievedDomainsThisSession"]))
    for role in ("primary", "supplement"):
        passage = result[role]
        if passage:
            lines += ["", f"--- {role}: {passage['source']} ({passage['matchType']})", passage["content"].strip()]
            if passage.get("availableSections"):
                lines.append("sections: " + " | ".join(passage["availableSections"]))
    return lines
