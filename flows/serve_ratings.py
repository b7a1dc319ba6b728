"""The HTTP service on the champion of the ratings family: what it is asked, and what it answers."""

import base64
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from predilect.models.errors import PredilectError
from predilect.models.ratings import Prediction
from predilect.models.ratings.groups import Group
from predilect.tasks.champion import Champion, Served
from predilect.tasks.settings import Settings

MOST_PAIRS, MOST_ITEMS, MOST_MEMBERS = 100_000, 1_000, 100
Id = StrictInt | StrictStr
Next = Callable[[Request], Awaitable[Response]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Pairs(_Body):
    """Whose rating of what."""

    users: list[Id] = Field(min_length=1, max_length=MOST_PAIRS, examples=[[1, 2]])
    items: list[Id] = Field(min_length=1, max_length=MOST_PAIRS, examples=[[10, 20]])

    @model_validator(mode="after")
    def _pairs(self) -> "Pairs":
        if len(self.users) != len(self.items):
            raise ValueError(f"there are {len(self.users)} users and {len(self.items)} items; give pairs")
        return self


class Newcomer(_Body):
    """What somebody new has rated."""

    items: list[Id] = Field(max_length=MOST_PAIRS, examples=[[10, 20]])
    ratings: list[float] = Field(max_length=MOST_PAIRS, examples=[[5, 1]])
    n: int = Field(default=10, ge=0, le=MOST_ITEMS, description="How many items to recommend.")


class GroupBy(StrEnum):
    """What a group's items are ordered by."""

    mean = "mean"
    least = "least"
    all_at_least = "all_at_least"


class Members(_Body):
    """Who is in a group, and what it wants."""

    users: list[Id] = Field(min_length=1, max_length=MOST_MEMBERS, examples=[[1, 2, 3]])
    n: int = Field(default=10, ge=0, le=MOST_ITEMS)
    by: GroupBy = Field(
        default=GroupBy.mean, description="mean; least: misery; all_at_least: chance that all rate at least that."
    )
    at_least: float | None = Field(default=None, description="In rating units; default: the scale's upper quarter.")
    exclude: list[Id] = Field(default=[], max_length=MOST_PAIRS)


class Predicted(BaseModel):
    """Predicted ratings; known: whether the model has both user and item, else the prior speaks."""

    model: str
    mean: list[float]
    sd: list[float]
    known: list[bool]


class Recommended(BaseModel):
    """Items, best first, with their predicted ratings."""

    model: str
    items: list[int | str]
    mean: list[float]
    sd: list[float]
    known: bool = Field(description="Whether the model knows the user, or every item that was rated.")


class GroupRecommended(BaseModel):
    """Items for a group, best first."""

    model: str
    items: list[int | str]
    mean: list[float]
    least: list[float]
    all_at_least: list[float]
    known: list[bool]


def create_app(settings: Settings, seconds: float = 2.0) -> FastAPI:
    """The service. seconds: between looks at the alias `champion`; without a champion every answer is status 503."""
    champion = Champion(settings, seconds)
    credentials = settings.credentials()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        champion.close()

    app = FastAPI(title="Predilect ratings", lifespan=lifespan, description="Predicted ratings by the champion.")
    app.state.champion = champion
    figures = _Figures(champion)

    @app.middleware("http")
    async def guard(request: Request, call: Next) -> Response:
        began = time.perf_counter()
        if credentials and request.url.path != "/healthz" and not _signed_in(request, credentials):
            response: Response = JSONResponse(
                {"detail": "Sign in with the USER:PASSWORD of this service."}, 401, {"WWW-Authenticate": "Basic"}
            )
        else:
            response = await call(request)
        figures.note(request, response.status_code, time.perf_counter() - began)
        return response

    @app.exception_handler(PredilectError)
    async def refused(_: Request, error: PredilectError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    def served() -> Served:
        if champion.served is None:
            raise HTTPException(503, champion.absent)
        return champion.served

    _routes(app, served)

    @app.get("/metrics", response_class=PlainTextResponse, summary="Figures for Prometheus")
    def metrics() -> bytes:
        return figures.text()

    return app


def _routes(app: FastAPI, served: Callable[[], Served]) -> None:
    @app.get("/healthz", summary="Is it up, and with which model?")
    def healthz() -> dict[str, Any]:
        now = served()
        return {
            "status": "ok",
            "model": now.version.uri,
            "run": now.version.run,
            "users": len(now.model.user_ids),
            "items": len(now.model.item_ids),
        }

    @app.post("/predict", summary="Predicted ratings of pairs")
    def predict(pairs: Pairs) -> Predicted:
        now = served()
        users, items = now.model.user_ids.encode(pairs.users), now.model.item_ids.encode(pairs.items)
        known = (users >= 0) & (items >= 0)
        return Predicted(model=now.version.uri, known=known.tolist(), **_numbers(now.model.predict(users, items)))

    @app.get("/recommend", summary="The items that a user would rate highest")
    def recommend(
        user: Annotated[int | str, Query(description="The user's id.", examples=[1], union_mode="left_to_right")],
        n: Annotated[int, Query(ge=0, le=MOST_ITEMS, description="How many.")] = 10,
        exclude: Annotated[list[int | str] | None, Query(description="Items to leave out.")] = None,
    ) -> Recommended:
        now = served()
        who = _like(user, now.model.user_ids.ids)
        items, found = now.model.recommend(who, n, [_like(item, now.model.item_ids.ids) for item in exclude or []])
        known = bool(now.model.user_ids.encode([who])[0] >= 0)
        return Recommended(model=now.version.uri, items=items.tolist(), known=known, **_numbers(found))

    @app.post("/fold-in", summary="Recommendations for somebody new, from a few ratings")
    def fold_in(newcomer: Newcomer) -> Recommended:
        now = served()
        folded = now.model.fold_in(newcomer.items, newcomer.ratings)
        items, found = folded.recommend(newcomer.n)
        return Recommended(model=now.version.uri, items=items.tolist(), known=folded.n_unknown == 0, **_numbers(found))

    @app.post("/group", summary="Items for several people together")
    def group(members: Members) -> GroupRecommended:
        now = served()
        items, found = Group.of(now.model, members.users).recommend(
            members.n, members.by.value, members.at_least, members.exclude
        )
        return GroupRecommended(
            model=now.version.uri,
            items=items.tolist(),
            mean=found.mean.tolist(),
            least=found.least.tolist(),
            all_at_least=found.all_at_least.tolist(),
            known=(now.model.user_ids.encode(members.users) >= 0).tolist(),
        )


def _numbers(found: Prediction) -> dict[str, list[float]]:
    return {"mean": found.mean.tolist(), "sd": np.sqrt(found.variance).tolist()}


def _like(text: int | str, ids: Any) -> int | str:
    """An id from an address, which has no types, as the model has them."""
    return str(text) if ids.dtype.kind == "U" else text


def _signed_in(request: Request, credentials: str) -> bool:
    kind, _, said = request.headers.get("authorization", "").partition(" ")
    expected = base64.b64encode(credentials.encode()).decode()
    return kind.lower() == "basic" and secrets.compare_digest(said.encode(), expected.encode())


class _Figures:
    """What /metrics says."""

    def __init__(self, champion: Champion) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("predilect_requests", "Requests.", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "predilect_request_seconds", "Time of an answer.", ["path"], registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
        )  # fmt: skip
        for name, about, value in (
            (
                "predilect_model_version",
                "Version being served, 0 for none.",
                lambda: champion.served.version.number if champion.served else 0,
            ),
            ("predilect_model_swaps", "Champions exchanged since the start.", lambda: champion.swaps),
            ("predilect_registry_failures", "Looks at the registry that failed.", lambda: champion.failures),
        ):
            Gauge(name, about, registry=self.registry).set_function(value)

    def note(self, request: Request, status: int, seconds: float) -> None:
        """One answer; addresses that are none of ours count together."""
        path = getattr(request.scope.get("route"), "path", "other")
        self.requests.labels(path, status).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' format."""
        return generate_latest(self.registry)
