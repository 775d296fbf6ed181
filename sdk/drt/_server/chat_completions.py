"""Routes that OpenAI's clients know: chat completions, whose citations are annotations, and models.

The last message of the user is the question; the user's message before it is its context. What
else a client sends (system messages, temperature, tools) changes nothing: answers are quotes.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import jsonschema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .._errors import QuestionError
from .._types import ReadingStep
from .answers import answer_once, streamed
from .bodies import QUESTION_CHARACTERS, body_schema, expect_short_lists, read_object
from .errors import described, error_body
from .responses import event, reply, stream
from .service import Service, service_of

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._session import Session
    from .._stream import AnswerStream
    from .._types import Answer, Citation

HEADS = {"likely": "The document probably says it here:", "none": "The document does not say."}
KINDS = {"likely": "likely passage: ", "none": "closest passage: "}


async def list_models(request: Request) -> Response:
    """List the one model that is served, as OpenAI's clients expect it."""
    service = service_of(request)
    return reply(service, {"object": "list", "data": [_model(service)]})


async def show_model(request: Request) -> Response:
    """Return the model that is served, by its name."""
    service, name = service_of(request), str(request.path_params["model"])
    return (
        reply(service, _model(service)) if name == service.model_name else _unknown(service, name)
    )


def _model(service: Service) -> dict[str, Any]:
    return {"id": service.model_name, "object": "model", "created": 0, "owned_by": "drt"}


def _unknown(service: Service, name: object) -> Response:
    problem = f"there is no model {str(name)[:80]!r} here; there is {service.model_name}."
    return JSONResponse(error_body(problem, "model_not_found", 404), 404)


async def complete(request: Request) -> Response:
    """Answer the last message of a chat, whole or as server-sent events."""
    service, body = service_of(request), await read_object(request)
    name = service.model_name
    if body.get("model") not in (name, None):
        return _unknown(service, body["model"])
    if body.get("n") not in (None, 1):
        raise HTTPException(400, "n is not 1; a question has one answer here.")
    questions, options = _questions(body.get("messages")), _ask_options(body.get("drt"))
    head: dict[str, Any] = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": name,
    }
    if body.get("stream") is True:
        service.questions.expect_room()  # while the response can still have a status
        return stream(_chunks(request, head, questions, options))
    answer = await _answer(service, questions, options)
    text, annotations = rendered(answer, str(request.base_url))
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    message["annotations"] = annotations
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    completion = {**head, "object": "chat.completion", "choices": [choice]}
    return reply(service, {**completion, "drt": answer.to_dict()})


def rendered(answer: Answer, base_url: str) -> tuple[str, list[dict[str, Any]]]:
    """Return an answer with its sources as text, and an annotation for each source's characters."""
    text = answer.text if answer.found else HEADS[answer.state]
    annotations: list[dict[str, Any]] = []
    for number, citation in enumerate(answer.citations, start=1):
        line = _source(number, citation, kind="" if answer.found else KINDS[answer.state])
        start = len(text) + 2
        text = f"{text}\n\n{line}"
        place = {
            "start_index": start,
            "end_index": len(text),
            "title": citation.title,
            "url": f"{base_url}#{citation.handle}",
        }
        annotations.append({"type": "url_citation", "url_citation": place})
    return text, annotations


def _source(number: int, citation: Citation, *, kind: str) -> str:
    parts = [citation.title]
    if citation.page_name:
        parts.append(citation.page_name)
    if citation.section:
        parts.append(citation.section.removeprefix(f"{citation.title} > "))
    return f"[{number}] {kind}{', '.join(dict.fromkeys(parts))}: {citation.sentence}"


def _questions(messages: Any) -> list[str]:
    """Return the user's last message, and the one before it in front of it."""
    if not isinstance(messages, list) or not messages:
        raise HTTPException(400, "messages is not a list of messages; send at least one.")
    texts = [_text(message) for message in messages if _role(message) == "user"]
    if not texts or _role(messages[-1]) != "user":
        raise HTTPException(400, "the last message is not the user's; it should be the question.")
    return texts[-2:]


def _role(message: Any) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise HTTPException(400, "a message has no role; send objects with role and content.")
    return str(message["role"])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = " ".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str) or not content.strip():
        raise HTTPException(400, "a message of the user has no text; send some.")
    if len(content) > QUESTION_CHARACTERS:
        raise HTTPException(
            400,
            f"a message of the user has {len(content):,} characters, at most"
            f" {QUESTION_CHARACTERS:,} are read; ask a shorter question, and upload documents.",
        )
    return content


def _ask_options(options: Any) -> dict[str, Any]:
    """Return the options of ``/v1/ask`` that a client added as ``drt``."""
    if options is None:
        return {}
    schema = body_schema("ask")
    value = {"question": "?", **options} if isinstance(options, dict) else options
    if isinstance(value, dict):
        expect_short_lists(value)
    problem = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(value)
    )
    if problem is not None or not {"session", "stream", "writer"}.isdisjoint(options):
        message = problem.message if problem else "session, stream and writer are not for a chat"
        raise HTTPException(400, f"drt: {message[:300]}; it takes the options of /v1/ask.")
    return dict(options)


async def _answer(service: Service, questions: list[str], options: Any) -> Answer:
    if len(questions) == 1:
        return await answer_once(service, questions[0], options)

    def in_context(assistant: Assistant) -> Answer:
        return _in_context(assistant, questions, options).ask(questions[-1], **options)

    return await service.questions.run(in_context)


def _in_context(assistant: Assistant, questions: list[str], options: Any) -> Session:
    """Return a conversation in which all but the last question are asked already."""
    session = assistant.session()
    for question in questions[:-1]:
        with contextlib.suppress(QuestionError):  # "?!" is no context, and no reason to fail
            session.ask(question, **options)
    return session


async def _chunks(
    request: Request, head: dict[str, Any], questions: list[str], options: Any
) -> AsyncIterator[str]:
    """Yield the chunks of a streamed completion, ``[DONE]`` last; an error is a chunk, too."""
    service = service_of(request)

    def chunk(delta: dict[str, Any], **last: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **last}
        return event(None, {**head, "object": "chat.completion.chunk", "choices": [choice]})

    def start(assistant: Assistant) -> AnswerStream:
        if len(questions) == 1:
            return assistant.stream(questions[0], **options)
        return _in_context(assistant, questions, options).stream(questions[-1], **options)

    yield chunk({"role": "assistant", "content": ""})
    try:
        sent = 0  # characters
        async for item in streamed(service, start):
            if isinstance(item, str):
                sent += len(item)
                yield chunk({"content": item})
            elif not isinstance(item, ReadingStep):
                text, annotations = rendered(item, str(request.base_url))
                yield chunk({"content": text[sent:]})
                yield chunk({"annotations": annotations}, finish_reason="stop")
    except Exception as error:
        yield event(None, described(error, service)[1])
    yield event(None, "[DONE]")
