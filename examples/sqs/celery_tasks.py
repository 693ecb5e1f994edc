"""Celery on Laneway, through its SQS transport.

LANEWAY=127.0.0.1:3001 celery -A celery_tasks worker --concurrency 2
LANEWAY=127.0.0.1:3001 python celery_tasks.py 2 3
"""

from __future__ import annotations

import os
import sys

from celery import Celery

app = Celery("examples", broker=f"sqs://any:any@{os.environ.get('LANEWAY', '127.0.0.1:3001')}//")
app.conf.update(
    task_default_queue=os.environ.get("QUEUE", "celery"),
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,
        "wait_time_seconds": 20,
        "visibility_timeout": 60,
    },
    # SQS transports tasks, not results.
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_redirect_stdouts=False,
)


@app.task(name="examples.add")
def add(a: int, b: int) -> int:
    total = a + b
    sys.stdout.write(f"{a} + {b} = {total}\n")
    sys.stdout.flush()
    return total


if __name__ == "__main__":
    add.delay(*map(int, sys.argv[1:]))
