"""``manage.py calibrate`` on a small knowledge base with the hashing embedder, here and through the server's door."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client

from agents.level_fit import present_fit, save_calibration, saved_fit
from agents.lookup_api import LOCAL_PRINCIPAL
from agents.models import LevelCalibration
from agents.tools import LOOKUP_TOOL, ToolContext, call_tool, retrieval_settings
from clients.interfaces import ClientError, LevelFit
from clients.registry import get_embedder, get_vector_store
from documents.data_dir import hold_data_dir
from documents.local_server import LocalServerError, announce_server
from documents.models import ToolInvocation
from observability.calibration import asking, run
from observability.calibration.asking import answer, ask
from observability.calibration.questions import recent_queries, unanswerable_questions
from observability.management.commands import calibrate as command
from retrieval.relevance import rule_for
from tests.documents.library import indexed, text

pytestmark = pytest.mark.django_db

HEAD = "---\ntitle: {title}\nkeywords: [{keyword}]\n---\n"
UNANSWERABLE = {
    "far": ["zebra stripes", "the gateway of nothing", "opera tickets", "violin lessons"],
    "near": ["who is on call tonight", "gateway budget of next year"],
}


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "unanswerable_questions", lambda: UNANSWERABLE)


@pytest.fixture
def site() -> None:
    """Three documents of 62 chunks."""
    sections = "".join(f"## Step {number}\n\nTurn valve {number} of pump {number * 7}.\n\n" for number in range(60))
    indexed(HEAD.format(title="Pumps", keyword="PUMP-1") + sections, "pumps.md")
    indexed(text("ERR_TIMEOUT", "The gateway gives up after thirty seconds.\n"), "timeouts.md")
    indexed(text("ERR_TIMEOUT", "The certificate of the proxy has expired.\n", "Certificates"), "certificates.md")


def calibrate(*arguments: str) -> str:
    out = io.StringIO()
    call_command("calibrate", *arguments, stdout=out)
    return out.getvalue()


def calibrated(*arguments: str) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads(calibrate(*arguments, "--json"))
    return answered


def look_up(query: str, channel: str = "api") -> Any:
    context = ToolContext(principal="user:1", channel=channel)
    return call_tool(LOOKUP_TOOL, {"query": query}, context).content["relevanceLevel"]


def labels(folder: Path, *lines: Any) -> str:
    path = folder / "labels.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines), encoding="utf-8")
    return str(path)


# ---- What it says ----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("site")
def test_the_json_has_its_shape_and_its_figures_agree(tmp_path: Path) -> None:
    file = labels(tmp_path, {"query": "gateway gives up", "document": "knowledge_base/payment/timeouts.md"})
    look_up("expired certificate proxy")
    found = calibrated("--labels", file)
    assert list(found) == [
        "embedder", "version", "chunks", "in_force", "source", "environment", "proposed", "unanswerable", "labels",
        "levels", "applied",
    ]  # fmt: skip
    assert (found["embedder"], found["chunks"], found["source"]) == ("hashing", 62, "embedder")
    assert found["environment"] == {"highly_relevant": None, "reference": None}
    assert found["proposed"]["chunks"] == 62
    assert found["labels"] == {"asked": 1, "ranked": 1, "before": 1, "after": 1}
    assert list(found["levels"]) == ["unanswerable_far", "unanswerable_near", "labels", "recent"]
    assert [mix["asked"] for mix in found["levels"].values()] == [4, 2, 1, 1]
    for mix in found["levels"].values():
        for when in ("before", "after"):
            assert list(mix[when]) == ["PRECISE", "HIGHLY_RELEVANT", "REFERENCE", "NOT_FOUND"]
            assert sum(mix[when].values()) == mix["asked"]
    silent = sum(found["levels"][f"unanswerable_{subject}"]["after"]["NOT_FOUND"] for subject in ("far", "near"))
    assert found["unanswerable"]["after"] == found["unanswerable"]["asked"] - silent


@pytest.mark.usefixtures("site")
def test_the_table_says_the_same_in_words(settings: Any) -> None:
    settings.RETRIEVAL_REFERENCE_THRESHOLD = 0.9
    look_up("ERR_TIMEOUT")
    found, printed = calibrated(), calibrate()
    fit, proposed = get_embedder().fit, found["proposed"]
    assert "hashing 1 over 62 chunks" in printed
    assert f"found from {fit.reference:.2f} {proposed['reference']:.2f}" in " ".join(printed.split())
    assert "RETRIEVAL_REFERENCE_THRESHOLD=0.9 is set and stays in force." in printed
    assert "no answer, far from the subject before 4 0 0 0 4" in " ".join(printed.split())
    assert "asked lately before 1" in " ".join(printed.split())
    assert "Nothing was changed. To apply it: python manage.py calibrate --apply" in printed


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("precise_check", [True, False])
@pytest.mark.parametrize("fit", [LevelFit(0.42, 0.35), LevelFit(0.2, 0.1), LevelFit(0.3, 0.3, 0.05, 0.3, 0.1)])
def test_its_levels_are_those_of_real_lookups(fit: LevelFit, precise_check: bool, settings: Any) -> None:
    settings.RETRIEVAL_PRECISE_CHECK = precise_check
    embedder = get_embedder()
    save_calibration(embedder=embedder.name, version=embedder.version, fit=fit, by="")
    rule = rule_for(retrieval_settings(embedder), embedder.fit)
    queries = [
        "ERR_TIMEOUT",
        "PUMP-1",
        "gateway gives up",
        "what does the gateway do after thirty seconds with ERR_TIMEOUT",
        "expired certificate",
        "turn valve 7",
        "is pump-1 the one whose valve must be turned before anything else is done at all",
        "zebra",
    ]
    for query in queries:
        assert ask(query, embedder, get_vector_store()).level(rule) == (look_up(query) or "NOT_FOUND"), query


@pytest.mark.usefixtures("site")
def test_nothing_is_recorded_and_nothing_changed_unless_told() -> None:
    look_up("gateway gives up")
    before = ToolInvocation.objects.count()
    calibrated()
    assert ToolInvocation.objects.count() == before
    assert not LevelCalibration.objects.exists()


# ---- Applying --------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("site")
def test_apply_puts_the_proposal_in_force_and_reset_takes_it_back() -> None:
    embedder = get_embedder()
    found = calibrated("--apply")
    assert found["applied"]
    saved = saved_fit(embedder)
    assert saved is not None
    assert (saved.fit, saved.by) == (LevelFit(**found["proposed"]), LOCAL_PRINCIPAL)
    assert "Applied. To undo it: python manage.py calibrate --reset" in calibrate("--apply")
    again = calibrated()
    assert again["source"] == "calibration"
    assert again["in_force"] == again["proposed"] == found["proposed"]
    assert "shipped thresholds are in force again" in calibrate("--reset")
    assert present_fit(embedder) == embedder.fit
    assert "Nothing was applied" in calibrate("--reset")
    assert json.loads(calibrate("--reset", "--json")) == {"removed": False}


def test_apply_and_reset_exclude_each_other() -> None:
    with pytest.raises(CommandError, match="not allowed with"):
        calibrate("--apply", "--reset")


# ---- What it asks ----------------------------------------------------------------------------------------------------
def test_every_shipped_question_is_asked() -> None:
    assert {subject: len(texts) for subject, texts in unanswerable_questions().items()} == {"far": 100, "near": 120}


def test_the_last_distinct_queries_of_people_are_asked() -> None:
    def record(query: str, channel: str = "chat", tool: str = LOOKUP_TOOL) -> None:
        ToolInvocation.objects.create(query=query, channel=channel, tool_name=tool)

    for number in range(510):
        record(f"question {number}")
    for query in ("again", " ", "x" * 2001, "again"):
        record(query)
    record("a trial", channel="admin")
    record("a demonstration", channel="demo")
    record("not a lookup", tool="another")
    queries = recent_queries()
    assert len(queries) == 500
    assert queries[:2] == ["again", "question 509"]
    assert recent_queries(limit=1) == ["again"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not JSON"),
        ("[]", 'line 1: "query"'),
        ({"query": "x"}, 'line 1: "query"'),
        ({"query": " ", "document": "a.md"}, 'line 1: "query"'),
        ("[" * 100_000, "line 1: not JSON"),
        ({"query": "\ud800 x", "document": "a.md"}, 'line 1: "query"'),
        ({"query": "x\0", "document": "a.md"}, 'line 1: "query"'),
        ({"query": "x" * 2001, "document": "a.md"}, 'line 1: "query"'),
        ({"query": "x", "document": "\udfff.md"}, 'line 1: "query"'),
        ({"query": "x", "document": "a\0.md"}, 'line 1: "query"'),
        ({"query": "x", "document": " "}, 'line 1: "query"'),
        ({"query": "x", "document": "x" * 2001}, 'line 1: "query"'),
        ({"query": "x", "document": "knowledge_base/payment/gone.md"}, "there is no document"),
    ],
)
@pytest.mark.usefixtures("site")
def test_a_label_that_is_none_is_named_with_its_line_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: Any, said: str
) -> None:
    monkeypatch.setattr(command, "calibrate", lambda *_, **__: pytest.fail("it was asked"))
    with pytest.raises(CommandError, match=said) as fault:
        calibrate("--labels", labels(tmp_path, line))
    assert "\n" not in str(fault.value)


def test_a_file_without_labels_or_no_file_is_one_line(tmp_path: Path) -> None:
    for path in (labels(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(CommandError, match=r"no label|cannot be read"):
            calibrate("--labels", path)


# ---- What goes wrong -------------------------------------------------------------------------------------------------
def test_an_empty_and_a_nearly_empty_store_are_one_line() -> None:
    with pytest.raises(CommandError, match="The store has 0 chunks"):
        calibrate()
    indexed(text())
    with pytest.raises(CommandError, match="The store has 2 chunks"):
        calibrate("--apply")
    assert not LevelCalibration.objects.exists()


@pytest.mark.usefixtures("site")
def test_a_store_whose_vectors_are_gone_is_one_line() -> None:
    get_vector_store().reset()
    with pytest.raises(CommandError, match=r"its vectors are gone\. Run: python manage\.py reindex --all"):
        calibrate()


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("owner", "method", "said"),
    [
        (get_vector_store, "open", "No route. Start it."),
        (get_vector_store, "search", "The vector store fails: store_unavailable: No route."),
        (get_embedder, "embed_query", "The embedder fails: store_unavailable: No route."),
    ],
)
def test_what_is_down_is_one_line(
    monkeypatch: pytest.MonkeyPatch, owner: Callable[[], Any], method: str, said: str
) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise ClientError("No route.", code="store_unavailable", hint="Start it.")

    monkeypatch.setattr(owner(), method, down)
    with pytest.raises(CommandError) as fault:
        calibrate("--apply")
    assert str(fault.value).startswith(said)
    assert "\n" not in str(fault.value)


def test_a_database_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise OperationalError("no such table: term_count")

    monkeypatch.setattr(asking, "chunks_at_hand", gone)
    with pytest.raises(CommandError, match=r"python manage\.py migrate"):
        calibrate()


def test_a_folder_that_another_process_holds_is_one_line(data_dir: Path) -> None:
    with hold_data_dir(data_dir), pytest.raises(CommandError, match="in use by process"):
        calibrate()


# ---- Through the running server --------------------------------------------------------------------------------------
@pytest.mark.usefixtures("site")
def test_the_running_server_is_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def server(path: str, payload: dict[str, Any]) -> dict[str, Any]:
        assert path == "/internal/calibrate/"
        asked.append(len(payload["queries"]))
        answered: dict[str, Any] = json.loads(json.dumps(answer(payload)))
        return answered

    here = calibrated()
    monkeypatch.setattr(command, "running_server", lambda: object())
    monkeypatch.setattr(command, "call_running_server", server)
    monkeypatch.setattr(command, "answer", None)
    assert calibrated() == here
    assert sum(asked) == 6
    assert max(asked) <= asking.AT_A_TIME


@pytest.mark.usefixtures("site")
def test_a_server_that_goes_away_meanwhile_or_has_a_fault_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([answer({"queries": []}), None])
    monkeypatch.setattr(command, "running_server", lambda: object())
    monkeypatch.setattr(command, "call_running_server", lambda *_: next(answers))
    with pytest.raises(CommandError, match="The server stopped meanwhile"):
        calibrate()

    def fault(*_: Any) -> None:
        raise LocalServerError("The server on http://127.0.0.1:8000 does not answer.")

    monkeypatch.setattr(command, "call_running_server", fault)
    with pytest.raises(CommandError, match="does not answer"):
        calibrate()


@pytest.mark.usefixtures("site")
def test_the_servers_door_needs_the_token(data_dir: Path) -> None:
    announce_server("http://127.0.0.1:8000")
    token = json.loads((data_dir / "server.json").read_text())["token"]

    def post(payload: Any, sent: str) -> Any:
        headers = {"Authorization": f"Bearer {sent}"}
        return Client().post("/internal/calibrate/", payload, content_type="application/json", headers=headers)

    assert post({"queries": []}, "guessed").status_code == 404
    answered = post({"queries": ["gateway gives up"]}, token).json()
    assert answered["site"]["chunks"] == 62
    assert answered["asked"][0]["candidates"][0]["path"] == "knowledge_base/payment/timeouts.md"
    for queries in (None, "text", [""], [7], ["x" * 2001], ["x"] * 17, ["\ud800 x"], ["x\0"]):
        assert list(post({"queries": queries}, token).json()) == ["error"]
