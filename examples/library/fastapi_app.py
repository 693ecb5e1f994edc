"""A FastAPI application with background jobs: DATABASE_URL=postgresql://… uvicorn fastapi_app:app.

Run the jobs in processes of their own: DATABASE_URL=postgresql://… laneway worker run fastapi_app:jobs
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, HTTPException

import laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

jobs = laneway.App(os.environ["DATABASE_URL"])
broker = jobs.connect()


@jobs.handler("reports", keep_results=timedelta(hours=1))
async def render(message: laneway.Message) -> dict[str, Any]:
    return {"title": f"Report for {message.payload['customer']}"}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with broker:
        await broker.install()
        await broker.admin.create_queue("reports", exist_ok=True)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports", status_code=202)
async def request_report(customer: str) -> dict[str, str]:
    job = await broker.producer("reports").enqueue({"customer": customer})
    return {"job": str(job)}


@app.get("/reports/{job}")
async def read_report(job: str) -> dict[str, Any]:
    try:
        report: dict[str, Any] = await broker.job_result(job)
    except (laneway.errors.ResultNotFound, laneway.errors.InvalidId):
        raise HTTPException(404, "there is no such report, or it is not ready") from None
    return report
