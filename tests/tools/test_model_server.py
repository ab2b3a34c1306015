"""The scripted model over HTTP: every dialect, whole and streamed, says what the script says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.speaking import SPEAKERS, TOOLS, Asked, Heard, events, post
from tools.model_server import Meanwhile, Rule, Say, Script, Serving, Write, serving

each_dialect = pytest.mark.parametrize("dialect", SPEAKERS)
streamed_or_not = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as running:
        yield running


def ask(server: Serving, dialect: str, asked: Asked, *, streaming: bool = False) -> Heard:
    speaker = SPEAKERS[dialect]
    status, headers, text = post(server.url + speaker.path(streaming), speaker.body(asked, streaming))
    assert status == 200, text
    if not streaming:
        return speaker.hear(json.loads(text))
    assert headers["content-type"].startswith("text/event-stream")
    return speaker.gather(events(text))


@each_dialect
@streamed_or_not
def test_words_arrive_letter_for_letter(server: Serving, dialect: str, streaming: bool) -> None:
    """A final message keeps its line breaks and its letters beyond ASCII, in one piece or in many."""
    heard = ask(
        server, dialect, Asked("Say it.\n@say Grüße, 世界:\\n  two lines, long enough for pieces"), streaming=streaming
    )
    assert heard == Heard("Grüße, 世界:\n  two lines, long enough for pieces", None, (1000, 50))


@each_dialect
@streamed_or_not
def test_a_step_becomes_a_call_of_an_offered_tool(server: Serving, dialect: str, streaming: bool) -> None:
    """A write is the client's own write tool, with the words that stand before it and the usage that was set."""
    asked = Asked("@usage 70 8\n@say First the file.\n@write a/b.txt :: one\\ntwo")
    heard = ask(server, dialect, asked, streaming=streaming)
    folder = "/somewhere/" if dialect == "responses" else ""  # only there did the client name its folder
    assert heard.call == ("write_file", {"file_path": f"{folder}a/b.txt", "content": "one\ntwo\n"})
    assert heard.text == "First the file."
    assert heard.tokens == (70, 8)


@each_dialect
def test_results_move_the_script_on(server: Serving, dialect: str) -> None:
    """Each tool result since the human turn is one step; after the last come the final words."""
    human = "@write a :: 1\n@shell make\n@say Finished."
    calls = [ask(server, dialect, Asked(human, results=["ok"] * count)).call for count in range(2)]
    assert [call and call[0] for call in calls] == ["write_file", "run_shell_command"]
    assert ask(server, dialect, Asked(human, results=["ok", "ok"])).text == "Finished."


@each_dialect
def test_a_client_without_tools_gets_words_only(server: Serving, dialect: str) -> None:
    """Who offers no tools asks for a title: no step is played there, no refusal used up."""
    human = "@http_once 500\n@write a :: 1\n@say A title."
    assert ask(server, dialect, Asked(human, tools={})) == Heard("A title.", None, (1000, 50))
    speaker = SPEAKERS[dialect]
    assert post(server.url + speaker.path(False), speaker.body(Asked(human), False))[0] == 500


@each_dialect
def test_the_log_has_what_arrived(server: Serving, dialect: str) -> None:
    """Role, brief, results, tools and answer are all in the log, whole; what clients add is apart from the brief."""
    brief = "# Brief\n\n- Agent: Implement\n\n## Task\n" + "long line of the task\n" * 500 + "@write a :: 1"
    ask(server, dialect, Asked(brief, system="You are the implementer.", results=["no such folder"]))

    (entry,) = server.log()
    assert (entry.dialect, entry.model, entry.human) == (dialect, "m-1", brief)
    assert "You are the implementer." in entry.system
    assert len(entry.results) == 1 and "no such folder" in entry.results[0]
    assert entry.tools == tuple(TOOLS)
    assert entry.answer == {"text": "Done."}
    with urllib.request.urlopen(f"{server.url}/log") as answer:
        assert json.load(answer)[0]["human"] == brief


@pytest.mark.parametrize(
    ("dialect", "expected_headers", "kind"),
    [
        ("anthropic", {"retry-after": "2.5", "anthropic-ratelimit-requests-remaining": "0"}, "rate_limit_error"),
        ("chat", {"retry-after": "2.5", "x-ratelimit-remaining-requests": "0"}, "requests"),
        ("responses", {"retry-after": "2.5", "x-ratelimit-reset-requests": "2.5s"}, "requests"),
        ("gemini", {"retry-after": "2.5"}, "RESOURCE_EXHAUSTED"),
    ],
)
def test_a_rate_limit_is_worded_as_the_service_does(
    server: Serving, dialect: str, expected_headers: dict[str, str], kind: str
) -> None:
    """Status, headers and body of a 429 are those of the real service, and it stays as long as the script says."""
    speaker = SPEAKERS[dialect]
    body = speaker.body(Asked("@retry_after 2.5\n@http 429 slow down"), False)
    for _ in range(2):
        status, headers, text = post(server.url + speaker.path(False), body)
        assert status == 429
        assert expected_headers.items() <= {name.lower(): value for name, value in headers.items()}.items()
        error = json.loads(text)["error"]
        assert error["message"] == "slow down"
        assert kind in (error.get("type"), error.get("status"))


def test_gemini_is_told_when_to_try_again_in_the_body(server: Serving) -> None:
    """Its client reads the delay from the error's details, not from a header."""
    speaker = SPEAKERS["gemini"]
    body = speaker.body(Asked("@retry_after 2.5\n@http 429"), False)
    error = json.loads(post(server.url + speaker.path(False), body)[2])["error"]
    assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}]


@each_dialect
def test_a_refusal_that_holds_once_is_over_when_asked_again(server: Serving, dialect: str) -> None:
    """The same request succeeds the second time; another place of the conversation was never refused."""
    speaker = SPEAKERS[dialect]
    url, body = server.url + speaker.path(True), speaker.body(Asked("@http_once 503 busy\n@say Here I am."), True)
    assert post(url, body)[0] == 503
    assert speaker.gather(events(post(url, body)[2])).text == "Here I am."


def test_rules_of_a_script_decide_by_the_brief() -> None:
    """The first rule whose conditions all occur gives the answer; nothing applies: the plain one."""
    implement = ("- Agent: Implement", "- Attempt: 1")
    script = Script(
        (Rule((Write("x", "1"),), contains=implement), Rule((Say("again"),), contains=implement[:1])), "Hm?"
    )
    with serving(script) as server:
        first = ask(server, "chat", Asked("- Agent: Implement\n- Attempt: 1"))
        second = ask(server, "chat", Asked("- Agent: Implement\n- Attempt: 2"))
        other = ask(server, "chat", Asked("- Agent: Test"))
    assert first.call == ("write_file", {"file_path": "x", "content": "1"})
    assert (second.text, other.text) == ("again", "Hm?")


@pytest.mark.parametrize("field", ["responseJsonSchema", "responseSchema"])
def test_a_client_that_demands_json_gets_json(server: Serving, field: str) -> None:
    """Bookkeeping questions get the plainest answer of their schema, whatever the script says."""
    schema = {
        "type": "OBJECT",
        "properties": {"next": {"type": "STRING", "enum": ["user", "model"]}, "ok": {"type": "BOOLEAN"}},
    }
    speaker = SPEAKERS["gemini"]
    body = speaker.body(Asked("@say never"), False)
    body["generationConfig"] = {"responseMimeType": "application/json", field: schema}
    answer = speaker.hear(json.loads(post(server.url + speaker.path(False), body)[2]))
    assert json.loads(answer.text) == {"next": "user", "ok": False}


@pytest.mark.parametrize(
    ("path", "key"), [("/v1/messages/count_tokens", "input_tokens"), ("/v1beta/models/m:countTokens", "totalTokens")]
)
def test_tokens_are_counted_without_a_turn(server: Serving, path: str, key: str) -> None:
    """Counting answers at once and leaves the log alone."""
    assert json.loads(post(server.url + path, {"messages": [], "contents": []})[2]) == {key: 1000}
    assert server.log() == ()


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1beta/models"])
def test_models_are_listed(server: Serving, path: str) -> None:
    """Every list of models names those that the clients are set up for."""
    with urllib.request.urlopen(server.url + path) as answer:
        listed: dict[str, Any] = json.load(answer)
    assert {"id": "gpt-5.5"}.items() <= next(model for model in listed["data"] if model["id"] == "gpt-5.5").items()
    assert {"name": "models/gemini-2.5-pro"} in listed["models"]


def test_a_stranger_is_turned_away_and_noted(server: Serving) -> None:
    """A path of no dialect is 404, and the log shows that somebody asked for it."""
    assert post(f"{server.url}/telemetry/batch", {})[0] == 404
    assert [(entry.method, entry.path, entry.dialect) for entry in server.log()] == [("POST", "/telemetry/batch", None)]


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"model": "m"}'])
def test_a_broken_request_is_an_error_of_the_client(server: Serving, body: bytes) -> None:
    """What cannot be read is a 400, not a fault of the server."""
    request = urllib.request.Request(f"{server.url}/v1/messages", body)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    refused.value.close()
    assert refused.value.code == 400


def test_a_directive_that_makes_no_sense_fails_loudly(server: Serving) -> None:
    """A mistake in a script is a bad request that names it: no client tries that again."""
    speaker = SPEAKERS["chat"]
    status, _, text = post(server.url + speaker.path(False), speaker.body(Asked("@http soon"), False))
    assert status == 400
    assert "@http" in text


def test_a_server_that_waits_can_be_stopped() -> None:
    """An answer that is still asleep does not keep the server."""
    with serving() as server:
        speaker = SPEAKERS["chat"]
        body = json.dumps(speaker.body(Asked("@sleep 3600\n@say late"), False)).encode()
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(urllib.request.Request(server.url + speaker.path(False), body), timeout=0.3)


def test_the_program_prints_its_url_and_ends_on_request(tmp_path: Path) -> None:
    """`python -m tools.model_server --script FILE` serves the file until it is told to end."""
    script = tmp_path / "script.yaml"
    script.write_text("rules:\n  - when: [hello]\n    turns:\n      - say: from a file\n")
    command = [sys.executable, "-m", "tools.model_server", "--port", "0", "--script", str(script)]
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        speaker = SPEAKERS["chat"]
        heard = speaker.hear(json.loads(post(url + speaker.path(False), speaker.body(Asked("hello"), False))[2]))
        os.kill(program.pid, signal.SIGTERM)
    assert heard.text == "from a file"
    assert program.returncode == 0


def test_the_program_says_what_is_wrong_with_its_script(tmp_path: Path) -> None:
    """A file that is no script is exit 2 with one line, not a traceback."""
    command = [sys.executable, "-m", "tools.model_server", "--script", str(tmp_path / "none.yaml")]
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 2
    assert "none.yaml" in done.stderr and "Traceback" not in done.stderr


def test_something_happens_while_a_client_waits() -> None:
    """Once, before the answer, however often the client asks again."""
    seen: list[str] = []
    script = Script((Rule((Meanwhile("edit"), Say("done")), ("go",)),))
    with serving(script, meanwhile=seen.append) as server:
        for _ in range(2):
            ask(server, "anthropic", Asked("go", tools=TOOLS))
            assert seen == ["edit"]
