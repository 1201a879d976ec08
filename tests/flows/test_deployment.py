"""What a production site is started with holds together: compose file, image, units, proxy, and the page about them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery.signals import after_task_publish, beat_init
from django.core.management import get_commands

import kbsite.celery  # noqa: F401 (its signals)
from kbsite.body_limit import limit_for
from kbsite.handler import QUESTION_THREADS, THREADS
from kbsite.variables import COMPOSE_ONLY, declared

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SITE = {name for name, service in SERVICES.items() if service["image"] == "kbsite:local"}
ONCE = {"migrate", "manage"}
LASTING = set(SERVICES) - ONCE
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
UNITS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "systemd").glob("*.service")}


# ---- docker-compose.yml ----------------------------------------------------------------------------------------------
def test_the_services_are_the_ones_a_site_needs() -> None:
    assert {name for name in SERVICES if "profiles" not in SERVICES[name]} == {
        "mysql",
        "redis",
        "milvus",
        "migrate",
        "web",
        "worker",
        "beat",
    }
    assert {"migrate", "web", "worker", "beat", "manage"} == SITE


def test_every_variable_that_compose_hands_on_is_one_that_the_settings_read() -> None:
    for name in SITE:
        assert set(SERVICES[name]["environment"]) <= declared(), name


def test_every_variable_that_compose_asks_for_is_in_the_example() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", COMPOSE_FILE.read_text(encoding="utf-8")))
    own = {variable.name for variable in COMPOSE_ONLY.variables}
    assert own <= asked <= own | declared()


def test_a_secret_has_no_default_and_whoever_leaves_it_out_is_told() -> None:
    uses = re.findall(r"\$\{MYSQL_PASSWORD([^}]*)\}", COMPOSE_FILE.read_text(encoding="utf-8"))
    assert len(uses) == 2
    assert all(use.startswith(":?") and ".env" in use for use in uses)


def test_the_web_port_alone_is_published_and_on_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:${PORT:-8000}:8000"]}
    assert not any("network_mode" in service for service in SERVICES.values())


def test_the_services_have_no_way_out() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name in ("mysql", "redis", "milvus"):
        assert SERVICES[name]["networks"] == ["inside"]


@pytest.mark.parametrize("name", sorted(LASTING))
def test_what_runs_on_has_a_health_check_a_restart_a_log_that_ends_and_a_bound_on_memory(name: str) -> None:
    service = SERVICES[name]
    check = service["healthcheck"]
    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries"} <= set(check)
    assert service["restart"] == "unless-stopped"
    assert service["init"] is True
    assert {"max-size", "max-file"} == set(service["logging"]["options"])
    assert "memory" in service["deploy"]["resources"]["limits"]


def test_who_waits_for_a_healthy_service_waits_for_one_that_has_a_check() -> None:
    for name, service in SERVICES.items():
        for other, wait in service.get("depends_on", {}).items():
            ends = other in ONCE
            assert wait == {"condition": "service_completed_successfully" if ends else "service_healthy"}, name
            assert ends or "healthcheck" in SERVICES[other], name


def test_tables_are_made_before_anything_of_the_site_runs() -> None:
    assert SERVICES["migrate"]["command"] == ["python", "manage.py", "bootstrap"]
    assert "restart" not in SERVICES["migrate"]
    for name in ("web", "worker", "beat"):
        assert {"migrate", "mysql", "redis"} <= set(SERVICES[name]["depends_on"]), name


@pytest.mark.parametrize("name", sorted(set(SERVICES) - SITE))
def test_an_image_is_named_with_its_version(name: str) -> None:
    assert re.search(r":[a-z-]*v?\d+\.\d+\.\d+(-[a-z]+)?$", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(SITE))
def test_the_processes_of_the_site_share_their_folders_and_write_nowhere_else(name: str) -> None:
    service = SERVICES[name]
    assert service["volumes"] == ["data:/srv/kbsite/data", "knowledge_base:/srv/kbsite/knowledge_base"]
    assert service["environment"]["DATA_DIR"] == "/srv/kbsite/data"
    assert service["environment"]["KNOWLEDGE_BASE_PATH"] == "/srv/kbsite/knowledge_base"
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108 (inside the container)
    assert service["cap_drop"] == ["ALL"]


def test_every_volume_is_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith("./")
    }
    assert used == set(COMPOSE["volumes"])


def test_what_is_mounted_from_here_is_here() -> None:
    mounted = [
        volume for service in SERVICES.values() for volume in service.get("volumes", []) if volume.startswith("./")
    ]
    assert mounted
    assert all((ROOT / volume.split(":")[0]).is_file() for volume in mounted)


def test_the_database_is_made_with_the_collation_that_the_settings_ask_for() -> None:
    assert {"--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin"} <= set(SERVICES["mysql"]["command"])


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="no docker with its compose plugin is here",
)
def test_docker_compose_itself_takes_the_file(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(COMPOSE_FILE, tmp_path)
    (tmp_path / ".env").write_text("MYSQL_PASSWORD=abc123\n", encoding="utf-8")
    command = ["docker", "compose", "--profile", "tools", "--profile", "embeddings", "config", "--quiet"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


# ---- What the site makes of it ---------------------------------------------------------------------------------------
SHOW = """
import kbsite.settings as s
print(s.DATABASES["default"]["HOST"], s.DATABASES["default"]["NAME"], s.EMBEDDED, s.EMBEDDED_WORKER, s.ALLOWED_HOSTS)
"""


def test_the_settings_take_what_compose_says(tmp_path: Path) -> None:
    (tmp_path / "MySQLdb.py").touch()  # the settings ask whether there is a driver, and load none
    said = {
        name: re.sub(r"\$\{([A-Z_]+)[^}]*\}", lambda found: f"{found[1].lower()}9", str(value))
        for name, value in SERVICES["web"]["environment"].items()
    } | {"DATA_DIR": str(tmp_path), "KNOWLEDGE_BASE_PATH": str(tmp_path)}
    outcome = run([sys.executable, "-c", SHOW], ROOT, PYTHONPATH=str(tmp_path), **said)
    assert outcome.stdout.strip() == "mysql kbsite False False ['allowed_hosts9', '127.0.0.1']", outcome.stderr


def test_the_worker_takes_from_every_queue_there_is(settings: Any) -> None:
    command = SERVICES["worker"]["command"]
    assert command[command.index("-Q") + 1].split(",") == [settings.CELERY_QUEUE, settings.LLM_QUEUE]
    assert command[command.index("--pool") + 1] == "threads"  # a fork would copy a loaded model's locks


def test_beat_marks_each_message_in_the_file_that_its_health_check_looks_at(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    check = SERVICES["beat"]["healthcheck"]["test"][1].replace("/srv/kbsite/data", str(tmp_path))
    beat_init.send(sender=None)
    try:
        assert subprocess.run(["sh", "-c", check], stderr=subprocess.DEVNULL, check=False).returncode != 0
        after_task_publish.send(sender="documents.scan")
        assert subprocess.run(["sh", "-c", check], check=False).returncode == 0
        an_hour_ago = time.time() - 3600
        os.utime(tmp_path / "beat", (an_hour_ago, an_hour_ago))
        assert subprocess.run(["sh", "-c", check], check=False).returncode != 0
    finally:
        after_task_publish.disconnect(dispatch_uid="kbsite-beat")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "SECRET_KEY": "x" * 60, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


# ---- Dockerfile ------------------------------------------------------------------------------------------------------
def copied() -> list[str]:
    """What the image gets of this folder, in order."""
    return list(re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE))


def test_nothing_gets_near_the_image_but_what_it_copies() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied())
    assert "**/.env" in rules[1:]


def test_the_image_has_no_secret_and_copies_by_name() -> None:
    assert all((ROOT / source).exists() for source in copied())
    assert not {".", "./", "*", ".env", "data/", "knowledge_base/"} & set(copied())
    assert not re.search(r"^(ENV|ARG).*(PASSWORD|SECRET|KEY|TOKEN)", DOCKERFILE, re.MULTILINE)


def test_the_image_runs_as_somebody_who_may_nothing() -> None:
    last = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    user = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    assert user == ["10001"]
    assert "--uid 10001" in last
    assert last.index("USER 10001") > last.index("useradd")
    assert "default-libmysqlclient-dev" not in last
    assert "HEALTHCHECK" in last


def test_the_image_is_installed_by_hashes() -> None:
    install = re.search(r"pip install(.*?)\n(?!\s)", DOCKERFILE, re.DOTALL)
    assert install
    assert "--require-hashes" in install[1]
    assert "requirements/production.lock" in copied()


def test_the_lock_of_a_production_site_is_the_plain_one_and_two_packages() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([a-z0-9-]+==[^ \\;]+)", text, re.MULTILINE))

    more = pins("requirements/production.lock") - pins("requirements.lock")
    assert pins("requirements.lock") <= pins("requirements/production.lock"), "make lock"
    assert {pin.split("==")[0] for pin in more} == {"gunicorn", "mysqlclient"}
    production = (ROOT / "requirements" / "production.txt").read_text(encoding="utf-8").splitlines()
    assert more <= set(production), "make lock"


def test_what_the_image_copies_is_a_whole_program(tmp_path: Path) -> None:
    for source in copied():
        if source.endswith("/"):
            shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / source).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / source)
    outcome = run([sys.executable, "manage.py", "check"], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    loaded = run([sys.executable, "-c", "import kbsite.asgi, kbsite.celery, documents.tasks"], tmp_path)
    assert loaded.returncode == 0, loaded.stderr


# ---- One set of commands ---------------------------------------------------------------------------------------------
def shell_words(command: list[str]) -> str:
    return " ".join(command)


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_a_process_is_started_alike_everywhere(name: str) -> None:
    command = shell_words(SERVICES[name]["command"])
    assert f"`{command}`" in PAGE, "the table of docs/production.md"
    assert command in README, "the README"
    started = re.findall(r"^ExecStart=(.*)$", UNITS[f"kbsite-{name}"], re.MULTILINE)
    assert started == [f"/srv/kbsite/.venv/bin/{command}"]


def test_the_image_starts_what_the_web_service_starts() -> None:
    found = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert [yaml.safe_load(command) for command in found] == [SERVICES["web"]["command"]]


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_a_unit_runs_as_the_site_and_writes_where_its_data_lies(name: str) -> None:
    unit = UNITS[f"kbsite-{name}"]
    for line in ("User=kbsite", "ProtectSystem=strict", "ReadWritePaths=/var/lib/kbsite", "NoNewPrivileges=yes"):
        assert f"\n{line}\n" in unit
    assert "DATA_DIR=/var/lib/kbsite/data\n" in PAGE
    assert "KNOWLEDGE_BASE_PATH=/var/lib/kbsite/knowledge_base\n" in PAGE


def test_the_page_starts_the_same_milvus_as_compose() -> None:
    started = next(block for block in blocks(PAGE) if block.startswith("docker run"))
    milvus = SERVICES["milvus"]
    assert f"{milvus['image']} {shell_words(milvus['command'])}" in started
    said = dict(re.findall(r"--env (\w+)=(\S+)", started))
    assert said == milvus["environment"]
    assert "--publish 127.0.0.1:19530:19530" in started


# ---- The page --------------------------------------------------------------------------------------------------------
def blocks(text: str) -> list[str]:
    """The fenced blocks, without the indent that they have inside a list."""
    found = re.findall(r"^( *)```\w*\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def test_every_command_of_the_page_can_be_parsed() -> None:
    assert len(blocks(PAGE)) > 12
    for block in blocks(PAGE):
        outcome = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert (outcome.returncode, outcome.stderr) == (0, ""), block


def test_what_the_page_names_is_here() -> None:
    words = "\n".join(blocks(PAGE))
    files = set(re.findall(r"(?:(?<=/srv/kbsite/)|(?<![\w/.]))(?:deploy|requirements|docs)/[\w./*-]+\w", PAGE))
    assert {"deploy/milvus-etcd.yaml", "deploy/systemd/kbsite-*.service", "requirements/production.lock"} <= files
    assert [name for name in sorted(files) if not any(ROOT.glob(name))] == []
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", words, re.MULTILINE)) <= targets
    named = set(re.findall(r"(?:manage\.py|run --rm manage) ([a-z_]+)", PAGE))
    assert {"bootstrap", "doctor", "scan", "create_api_key", "migrate", "reindex"} <= named <= set(get_commands())


def test_the_variables_of_the_page_are_ones_that_the_settings_read() -> None:
    written = re.search(r"cat > \.env <<END\n(.*?)END\n", PAGE, re.DOTALL)
    assert written
    names = {line.split("=")[0] for line in written[1].splitlines()}
    assert {"DATABASE_URL", "REDIS_URL", "VECTOR_STORE_URI", "CELERY_BROKER_URL"} <= names <= declared()


def test_the_connections_that_the_page_counts_are_the_threads_of_a_web_process() -> None:
    threads = THREADS + QUESTION_THREADS
    assert f"{threads} connections" in PAGE
    limit = next(option for option in SERVICES["mysql"]["command"] if option.startswith("--max-connections="))
    assert int(limit.split("=")[1]) >= 4 * threads + 20


# ---- Proxy -----------------------------------------------------------------------------------------------------------
def test_the_proxy_says_itself_whether_a_request_was_encrypted_and_holds_no_answer_back() -> None:
    proxy = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for line in (
        "proxy_set_header X-Forwarded-Proto $scheme;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header Host $host;",
        "proxy_buffering off;",
    ):
        assert line in proxy
    size = re.search(r"client_max_body_size (\d+)m;", proxy)
    assert size
    assert int(size[1]) * 1024 * 1024 >= limit_for("/admin/")


# ---- gunicorn --------------------------------------------------------------------------------------------------------
@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """One web process as production starts it, on embedded parts."""
    pytest.importorskip("gunicorn", reason="gunicorn is not installed (requirements/production.lock)")
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "SECRET_KEY": "x" * 60,
        "EMBEDDER": "hashing",
        "DATA_DIR": str(tmp_path / "data"),
        "KNOWLEDGE_BASE_PATH": str(tmp_path),
        "PORT": str(port),
    }
    command = [sys.executable, *SERVICES["web"]["command"][1:], "-w", "1"]
    (tmp_path / "data").mkdir()
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def test_gunicorn_serves_with_its_settings_and_stops_when_told(
    served: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = served
    assert answer_of(f"{address}/healthz?q=a-secret-question") == 200
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=40)[1]
    assert process.returncode == 0
    assert "a-secret-question" not in said


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer_of(address: str) -> int:
    for _ in range(100):
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return int(answer.status)
        except OSError:
            time.sleep(0.2)
    pytest.fail("nothing answers")


def test_gunicorn_never_loads_the_program_before_it_forks() -> None:
    text = (ROOT / "deploy" / "web.py").read_text(encoding="utf-8")
    assert "preload_app = False" in text
    assert 'worker_class = "asgi"' in text
