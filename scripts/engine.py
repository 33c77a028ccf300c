"""Prints the name of the engine that the service will choose here."""

import asyncio
import logging
import sys

from airlock.app import choose_engine
from airlock.cli.settings import Failure, load_settings
from airlock.errors import AirlockError


async def chosen() -> str:
    engine = await choose_engine(load_settings())
    await engine.aclose()
    return engine.name


logging.disable()  # the service itself will say what is wrong with an engine
try:
    print(asyncio.run(chosen()))
except (Failure, AirlockError) as error:
    sys.exit(f"airlock: {error}")
