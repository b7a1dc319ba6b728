"""The command that serves predictions over HTTP."""

from typing import Annotated

import typer

from predilect.flows.cli_common import err, plain
from predilect.models.errors import ParameterError
from predilect.tasks.settings import Settings


def serve_ratings(
    port: Annotated[int | None, typer.Option(help="Else PREDILECT_RATINGS_PORT, else 8000.", min=1, max=65535)] = None,
    every: Annotated[float, typer.Option(help="Seconds between looks for a new champion.", min=0.1)] = 2.0,
) -> None:
    """Answer /predict, /recommend, /fold-in and /group by the champion; a new champion takes over by itself."""
    settings = Settings()
    port = port or settings.ratings_port
    from predilect.tasks.processes import holder
    from predilect.tasks.service_commands import check_access

    check_access(settings)
    if who := holder(port):
        raise ParameterError(f"Port {port} is taken by {who}; stop it or give --port.")
    import uvicorn

    from predilect.flows.serve_ratings import create_app

    app = create_app(settings, every)
    if app.state.champion.served is None:
        err.print(plain(app.state.champion.absent), soft_wrap=True, highlight=False)
    print(f"http://{settings.host}:{port}/docs", flush=True)
    uvicorn.run(app, host=settings.host, port=port, log_level="warning")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    serve = typer.Typer(help="Serve the champion over HTTP.", no_args_is_help=True)
    serve.command("ratings")(serve_ratings)
    app.add_typer(serve, name="serve")
