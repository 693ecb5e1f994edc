"""Conversion of the command's settings to the server's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.activity.settings import ActivitySettings
from laneway.cli.detectors import make_detector_settings
from laneway.cli.gateway_settings import make_gateway_settings
from laneway.domain.settings import EngineSettings
from laneway.server.logs import choose_format
from laneway.server.settings import Limits, ServerSettings, SqsSettings
from laneway.server.tokens import TokenSettings

if TYPE_CHECKING:
    from laneway.cli.settings import Settings


def make_server_settings(settings: Settings) -> ServerSettings:
    base = EngineSettings()
    engine = replace(
        base,
        connections=settings.connections,
        maintenance=replace(
            base.maintenance,
            expire=_milliseconds(settings["overdue_check_interval_ms"]),
            expire_batch=settings["requeue_batch_size"],
        ),
    )
    return ServerSettings(
        host=settings["host"],
        port=settings["port"],
        workers=settings["workers"],
        insecure=settings["insecure"],
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        secret_key=settings["secret_key"],
        encryption_key=settings["queen_encryption_key"],
        tokens=TokenSettings(
            secret=settings["jwt_secret"],
            public_key=settings["jwt_public_key"],
            issuer=settings["jwt_issuer"],
            audience=settings["jwt_audience"],
            roles_claim=settings["jwt_roles_claim"],
        ),
        log_level=settings["log_level"],
        log_format=choose_format(settings["log_format"]),
        queue=settings["queue_name"],
        ack_timeout=timedelta(seconds=settings["ack_timeout_seconds"]),
        max_attempts=settings["max_attempts"],
        priority_levels=settings["max_priority_levels"],
        actor=settings["relay_actor"],
        manual_actor=settings["manual_operation_actor"],
        shutdown=timedelta(seconds=settings["shutdown_seconds"]),
        limits=Limits(
            body=settings["max_body_bytes"],
            long_polls=settings["max_long_polls"],
            event_streams=settings["max_event_streams"],
            anonymous_event_streams=settings["max_anonymous_event_streams"],
        ),
        sqs=SqsSettings(
            port=settings["sqs_port"],
            host=settings["sqs_host"],
            url_style=settings["sqs_url_style"],
            region=settings.sqs_region,
            account=settings.sqs_account,
            shared=settings["sqs_shared_queues"],
            in_flight=settings["sqs_in_flight"],
            recreate_after=timedelta(seconds=settings["sqs_recreate_seconds"]),
            purge_after=timedelta(seconds=settings["sqs_purge_seconds"]),
        ),
        activity=ActivitySettings(
            enabled=settings["activity_log_enabled"],
            retention=timedelta(hours=settings["activity_log_retention_hours"]),
            flash_message=_milliseconds(settings["activity_flash_message_threshold_ms"]),
            large_payload=settings["activity_large_payload_threshold_bytes"],
            long_processing=_milliseconds(settings["activity_long_processing_threshold_ms"]),
            near_dlq=settings["activity_near_dlq_threshold"],
            zombie_factor=settings["activity_zombie_threshold_multiplier"],
            burst_count=settings["activity_burst_threshold_count"],
            burst_within=timedelta(seconds=settings["activity_burst_threshold_seconds"]),
            bulk_operation=settings["activity_bulk_operation_threshold"],
            detectors=make_detector_settings(settings),
        ),
        gateway=make_gateway_settings(settings),
        deliver=settings["run_gateway"],
        engine=engine if engine.connections.have_sessions else engine.without_sessions(),
    )


def _milliseconds(value: float) -> timedelta:
    return timedelta(milliseconds=value)
