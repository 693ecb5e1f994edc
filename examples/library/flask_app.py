"""A Flask application with background jobs: DATABASE_URL=postgresql://… flask --app flask_app run.

Run the jobs in processes of their own: DATABASE_URL=postgresql://… laneway worker run flask_app:jobs
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

from flask import Flask, abort, request

import laneway

ADDRESS = os.environ["DATABASE_URL"]

jobs = laneway.App(ADDRESS)


@jobs.handler("reports", keep_results=timedelta(hours=1))
def render(message: laneway.Message) -> dict[str, Any]:
    return {"title": f"Report for {message.payload['customer']}"}


def create_app() -> Flask:
    app = Flask(__name__)
    # Its threads do not survive a fork, so each process of the web server creates its own application.
    broker = laneway.sync.connect(ADDRESS).open()
    atexit.register(broker.close)
    broker.install()
    broker.admin.create_queue("reports", exist_ok=True)

    @app.post("/reports")
    def request_report() -> tuple[dict[str, str], int]:
        job = broker.producer("reports").enqueue({"customer": request.args["customer"]})
        return {"job": str(job)}, 202

    @app.get("/reports/<job>")
    def read_report(job: str) -> dict[str, Any]:
        try:
            report: dict[str, Any] = broker.job_result(job)
        except (laneway.errors.ResultNotFound, laneway.errors.InvalidId):
            abort(404, "there is no such report, or it is not ready")
        return report

    return app
