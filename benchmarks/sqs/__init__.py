"""The scenario "sqs": the SQS endpoint, compared with REST on the same server and with moto_server."""

from __future__ import annotations
