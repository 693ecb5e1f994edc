"""The scenario "sqs": the SQS endpoint, beside REST on the same server and beside moto's server."""

from __future__ import annotations
