"""The service, put together. The only place that knows every part."""

import asyncio
import fcntl
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware import Middleware

from airlock import __version__
from airlock.api import in_flight, openapi
from airlock.api.access import Access
from airlock.api.answer_store import answer_store
from airlock.api.auth import Keyring
from airlock.api.body_limit import BodyLimit
from airlock.api.health import health_routes
from airlock.api.idempotency import Idempotency
from airlock.api.metrics import Metrics
from airlock.api.problems import Problems, install_handlers
from airlock.api.readiness import EngineCheck
from airlock.api.request_ids import RequestIds
from airlock.api.runs import run_routes
from airlock.api.services import Services
from airlock.engine import Engine
from airlock.errors import AirlockError, EngineMisconfigured, EngineUnavailable
from airlock.model import EngineReport
from airlock.sandbox.pool import Pool
from airlock.sandbox.runs import Runs
from airlock.settings import Settings

DAEMON_SECONDS = 5
"""How long a Docker daemon may take to answer before it counts as absent."""

logger = logging.getLogger(__name__)


def create_app(settings: Settings, engine: Engine | None = None) -> FastAPI:
    """The whole service. An engine that is passed in stays the caller's to close."""
    keyring = Keyring.of(settings)
    metrics = Metrics()
    requests: in_flight.Tasks = set()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            file = settings.data_dir / "answers.sqlite"
            answers = await stack.enter_async_context(answer_store(file, settings.idempotency_ttl))

            here = engine
            if here is None:
                here = await choose_engine(settings)
                stack.push_async_callback(here.aclose)
            stack.enter_context(alone(settings.data_dir / f"{here.name}-{settings.instance}.lock"))
            check = EngineCheck(here)
            log_isolation(here, await check.outcome())

            pool = Pool(here, settings)
            stack.push_async_callback(pool.aclose)
            await pool.start()
            stack.push_async_callback(in_flight.ended, requests)

            app.state.services = Services(
                settings=settings,
                keyring=keyring,
                metrics=metrics,
                engine=here,
                engine_check=check,
                pool=pool,
                runs=Runs(pool, settings),
                idempotency=Idempotency(answers),
            )
            yield

    app = FastAPI(
        title="Airlock",
        version=__version__,
        description=openapi.DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        middleware=[  # the first is the outermost
            Middleware(in_flight.InFlight, requests),
            Middleware(RequestIds),
            Middleware(Access, metrics),
            Middleware(Problems),
            Middleware(BodyLimit, settings.max_body_bytes),
        ],
    )
    install_handlers(app)
    app.include_router(run_routes())
    app.include_router(health_routes())
    openapi.complete(app, settings, needs_key=not keyring.is_open)
    return app


async def choose_engine(settings: Settings) -> Engine:
    """The engine that the settings name; for `auto`, Docker where a daemon answers, else bubblewrap."""
    # An engine that is not used need not be importable.
    if settings.engine != "bubblewrap":
        from airlock.engines.docker.engine import DockerEngine  # noqa: PLC0415

        docker = DockerEngine(settings)
        if settings.engine == "docker" or await daemon_answers(docker):
            return docker
        await docker.aclose()
    from airlock.engines.bubblewrap.engine import BubblewrapEngine  # noqa: PLC0415

    return BubblewrapEngine(settings)


async def daemon_answers(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(DAEMON_SECONDS):
            await engine.check()
    except (EngineUnavailable, TimeoutError):
        return False
    except AirlockError:
        pass  # it answers, and /readyz will say what it lacks
    return True


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Holds the lock while the service lives. Another with the same data would end our sandboxes."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another Airlock serves from {lock.parent}: give this one its own AIRLOCK_DATA_DIR"
            logger.error(message)
            raise EngineMisconfigured(message) from None
        yield


def log_isolation(engine: Engine, found: EngineReport | AirlockError) -> None:
    if isinstance(found, AirlockError):
        logger.error("engine %s can't be used: %s", engine.name, found.message)
        return
    logger.info("engine %s %s", found.engine, found.version)
    for what, measure in found.isolation.items():
        if measure.enforced:
            logger.info("enforced: %s (%s)", what, measure.how)
        else:
            logger.warning("not enforced: %s (%s)", what, measure.how)
