"""The server, in the foreground."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from drt_cli import _forking
from drt_cli._errors import CliError
from drt_cli._interrupt import leave
from drt_cli._options import Settings, with_global_options
from drt_cli._output import note
from drt_cli._status import waiting
from drt_cli._warm.beside import helper_beside
from drt_cli._writing import chosen_writer, writer_options

if TYPE_CHECKING:
    from drt import ServeOptions
    from drt_cli._workers import Listener

TOKEN = "DRT_SERVE_TOKEN"
MIB = 1 << 20


@with_global_options()
@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help=f"File with the token that clients must send (or the variable {TOKEN}).",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name that clients may call the server by; may be repeated.",
)
@click.option(
    "--allow-origin",
    "allowed_origins",
    multiple=True,
    metavar="URL",
    help="A web page's origin that may use the server; may be repeated.",
)
@click.option(
    "--max-upload",
    type=click.IntRange(1, 1 << 20),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Largest upload.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for a request, uploads excepted.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="Questions that may wait; more are refused.",
)
@click.option(
    "--max-wait",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time that a question may wait for its turn; others get status 429 and the time to"
    " ask again.",
)
@click.option(
    "--client-header",
    metavar="NAME",
    help="Header that tells clients apart, such as X-Forwarded-For behind a proxy; by default their"
    " addresses do. Clients take turns.",
)
@click.option(
    "--max-library",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Size of the library above which uploads are refused.",
)
@click.option(
    "--keep-pdfs",
    type=click.IntRange(min=0),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Uploaded PDFs to keep beside the library, to show their pages; 0 keeps none.",
)
@click.option(
    "--access-log",
    type=click.Choice(["off", "text", "json"]),
    default="off",
    show_default=True,
    help="Log each request to standard error: its route, status and seconds, and no question.",
)
@click.option(
    "--traces",
    is_flag=True,
    help="Trace requests with OpenTelemetry (extra otel), to where its variables say, such as"
    " OTEL_EXPORTER_OTLP_ENDPOINT.",
)
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Questions that are answered at the same time, each on its share of the threads.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that answer on the same address, which share the threads and the memory of the"
    " model (Linux, without a GPU). One that dies is replaced.",
)
@click.option("--read-only", is_flag=True, help="Take no uploads, and remove no documents.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Look up in each library in an actor of a Ray cluster (extra cluster): local starts one on"
    " this machine, auto joins its own, else HOST:PORT or ray://HOST:PORT.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="With --ray, how long an actor may take; without its answer the library is left out and"
    " named, or with --require-all it is an error.  [default: 10]",
)
@writer_options
@click.pass_obj
def command(
    settings: Settings,
    /,
    token_file: str | None,
    max_upload: int,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    timeout: float,
    queue: int,
    max_wait: float,
    client_header: str | None,
    max_library: int | None,
    keep_pdfs: int,
    access_log: Literal["off", "text", "json"],
    traces: bool,
    at_once: int,
    workers: int,
    read_only: bool,
    ray: str | None,
    deadline: float | None,
    writer: str | None,
    writer_model: str | None,
    writer_timeout: float,
    strict: bool,
) -> int:
    """Serve the library over HTTP: a page, an API, chat as OpenAI's.

    Needs the extra serve. Only this machine can reach it, unless --host says otherwise, which needs
    a token. /openapi.json describes the API. Ctrl-C finishes what runs, and a second one ends it at
    once. With --writer a request may ask for an answer that this language model writes.

    \b
    Example: drt serve --port 8080
    """
    _forking.import_numpy()
    from drt import ServeOptions, serve

    options = ServeOptions(
        host=host,
        port=port,
        token=_token(token_file),
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        max_upload=max_upload * MIB,
        timeout=timeout,
        queue=queue,
        max_wait=max_wait,
        client_header=client_header,
        max_library=None if max_library is None else max_library * MIB,
        keep_pdfs=keep_pdfs * MIB,
        access_log=access_log,
        traces=traces,
        at_once=at_once,
        read_only=read_only,
        writer=chosen_writer(writer, writer_model, timeout=writer_timeout, strict=strict),
    )
    if workers > 1 and ray is not None:
        raise CliError("--ray answers in actors of its own; leave out --workers.")
    if workers > 1 and find_spec("uvicorn") is not None:  # below it is said what is missing
        return _serve_with(workers, settings, options)
    with (
        settings.assistant(ray=ray, deadline=deadline) as assistant,
        helper_beside(settings, assistant.library.path),
    ):
        try:
            serve(
                assistant,
                options,
                ready=lambda address: note(settings, f"Serving {address}; Ctrl-C ends it."),
            )
        except KeyboardInterrupt:
            leave()  # closing would wait for the question that is being answered
    return 0


def _serve_with(workers: int, settings: Settings, options: ServeOptions) -> int:
    """Serve with several processes; return the exit status."""
    from drt import serve
    from drt._server.process import address_of
    from drt_cli import _workers

    listener = _workers.listening_socket(options.host, options.port)
    share = replace(settings, threads=_workers.share_of_threads(settings, workers))

    def work(shared: Listener, ready: Callable[[], None]) -> None:
        with share.assistant() as assistant:
            try:
                serve(assistant, options, ready=lambda _: ready(), listener=shared)
            except KeyboardInterrupt:
                leave()

    with settings.assistant() as assistant:
        path = assistant.library.path
    with listener, helper_beside(settings, path, without=listener):
        with waiting(settings, question=False):
            _workers.load_model(settings)
        address = address_of(listener)
        return _workers.run_workers(
            workers,
            listener,
            work,
            ready=lambda: note(
                settings, f"Serving {address} with {workers} workers; Ctrl-C ends it."
            ),
            say=lambda text: note(settings, text),
            debug=settings.debug,
        )


def _token(file: str | None) -> str | None:
    """Return the token of the file, else of the environment."""
    if file is None:
        return os.environ.get(TOKEN) or None
    token = Path(file).read_text(encoding="utf-8", errors="replace").strip()
    if not token:
        raise CliError(f"{file} is empty, a token was expected; `openssl rand -hex 24` makes one.")
    return token
