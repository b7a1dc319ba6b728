"""The command that serves predictions over HTTP."""

from typing import Annotated

import typer

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.settings import Settings


def serve_ratings(
    port: Annotated[int, typer.Option(help="Port, 1 to 65535.", min=1, max=65535)] = 8000,
    every: Annotated[float, typer.Option(help="Seconds between looks for a new champion.", min=0.1)] = 2.0,
) -> None:
    """Answer /predict, /recommend, /fold-in and /group by the champion; a new champion takes over by itself."""
    settings = Settings()
    if settings.credentials() is None and not settings.loopback:
        raise DataError(
            f"PREDILECT_HOST = {settings.host} is reached from elsewhere, and there is no password; set PREDILECT_AUTH "
            "or PREDILECT_AUTH_FILE to USER:PASSWORD, or bind 127.0.0.1."
        )
    from predilect.tasks.processes import holder

    if who := holder(port):
        raise ParameterError(f"Port {port} is taken by {who}; stop it or give --port.")
    import uvicorn

    from predilect.flows.serve_ratings import create_app

    app = create_app(settings, every)
    print(f"http://{settings.host}:{port}/docs", flush=True)
    uvicorn.run(app, host=settings.host, port=port, log_level="warning")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    serve = typer.Typer(help="Serve the champion over HTTP.", no_args_is_help=True)
    serve.command("ratings")(serve_ratings)
    app.add_typer(serve, name="serve")
