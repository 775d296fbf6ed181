"""OpenAI's own client as the client: completions, streams, models, errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sdk.fakes import FakeEngine
from tests.sdk.server.conftest import Client

ASKED = [{"role": "system", "content": "Sing."}, {"role": "user", "content": "Which period?"}]


@pytest.fixture
def openai(client: Client) -> Any:
    package = pytest.importorskip("openai")
    return package.OpenAI(
        base_url="http://127.0.0.1:8080/v1", api_key="none", http_client=client, max_retries=0
    )


def test_a_completion_cites_by_annotations(openai: Any) -> None:
    (model,) = openai.models.list().data
    completion = openai.chat.completions.create(model=model.id, messages=ASKED, temperature=0)
    message = completion.choices[0].message
    assert message.content.startswith("period\n\n[1] ")
    cited = message.annotations[0].url_citation
    assert message.content[cited.start_index : cited.end_index].endswith("thirty days.")
    handle = completion.drt["citations"][0]["handle"]
    assert cited.url == f"http://127.0.0.1:8080/#{handle}"


def test_a_streamed_completion_is_the_same_text(openai: Any) -> None:
    whole = openai.chat.completions.create(model="fake", messages=ASKED).choices[0].message
    chunks = list(openai.chat.completions.create(model="fake", messages=ASKED, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.content and chunks[-1].choices[0].finish_reason == "stop"
    (annotation,) = chunks[-1].choices[0].delta.annotations
    assert annotation["url_citation"]["url"] == whole.annotations[0].url_citation.url


def test_the_earlier_question_is_context_and_options_are_taken(
    openai: Any, engine: FakeEngine
) -> None:
    parts = [{"type": "text", "text": "Which keeper?"}]
    messages = [*ASKED, {"role": "assistant", "content": "x"}, {"role": "user", "content": parts}]
    for stream in (False, True):
        engine.asked.clear()
        made = openai.chat.completions.create(
            model="fake", messages=messages, stream=stream, extra_body={"drt": {"top_k": 3}}
        )
        if stream:
            list(made)
        assert [one["question"] for one in engine.asked] == ["Which period?", "Which keeper?"]
        assert engine.asked[-1]["top_k"] == 3


def test_words_that_are_no_question_are_no_context(openai: Any, engine: FakeEngine) -> None:
    messages = [{"role": "user", "content": "?!"}, {"role": "user", "content": "Which keeper?"}]
    made = openai.chat.completions.create(model="fake", messages=messages)
    assert made.choices[0].message.content.startswith("keeper")


def test_the_model_is_found_by_its_name(openai: Any) -> None:
    import openai as package

    assert openai.models.retrieve("fake").id == "fake"
    with pytest.raises(package.NotFoundError, match="there is no model 'gpt-9' here"):
        openai.models.retrieve("gpt-9")


def test_what_is_not_said_is_said_so(openai: Any) -> None:
    messages = [{"role": "user", "content": "Which zeppelin?"}]
    text = openai.chat.completions.create(model="fake", messages=messages).choices[0].message
    assert text.content.startswith("The document does not say.\n\n[1] closest passage: ")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "gpt-9", "messages": ASKED}, 404),
        ({"messages": []}, 400),
        ({"messages": "hello"}, 400),
        ({"messages": [{"role": "assistant", "content": "hello"}]}, 400),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400),
        ({"messages": [3]}, 400),
        ({"messages": ASKED, "n": 2}, 400),
        ({"messages": ASKED, "drt": {"session": "x"}}, 400),
        ({"messages": ASKED, "drt": ["x"]}, 400),
        ({"messages": ASKED, "drt": {"top_k": "many"}}, 400),
        ({"messages": [{"role": "user", "content": "why " * 10_000}]}, 400),
    ],
)
def test_bad_chats_are_refused_in_openais_shape(client: Client, body: Any, status: int) -> None:
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == status and response.json()["error"]["message"]


def test_an_error_in_a_stream_reaches_the_client(openai: Any, engine: FakeEngine) -> None:
    import openai as package

    engine.raises["ask"] = RuntimeError("secret")
    stream = openai.chat.completions.create(model="fake", messages=ASKED, stream=True)
    with pytest.raises(package.APIError, match="mistake of the server"):
        list(stream)
