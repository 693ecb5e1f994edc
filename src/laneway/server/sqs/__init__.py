"""The SQS protocol: AWS's clients use Laneway by its endpoint URL alone."""

from __future__ import annotations

from laneway.server.access import by_action
from laneway.server.operations import Media, Operation, Surface
from laneway.server.sqs.endpoint import Endpoint, QueuePath, explain, tell

# The forms of a queue's URL; an account is always twelve digits, which tells these from other paths.
_PATHS = ("/", "/{account}/{queue}", "/queue/{region}/{account}/{queue}")


def make_surface() -> Surface:
    endpoint = Endpoint()
    return Surface(
        name="sqs",
        prefix="",
        operations=tuple(
            Operation(
                method=method,
                path=path,
                handler=endpoint.answer,
                summary="An action of Amazon SQS, in its JSON or its query protocol",
                # Callers are let in by the signature over the whole request, in the handler.
                role=None,
                reach=by_action,
                parameters=None if path == "/" else QueuePath,
                body=Media("application/x-amz-json-1.0"),
                answers={200: Media("application/x-amz-json-1.0")},
                forms={"account": "[0-9]{12}"},
                query=None if method == "POST" else "Action",
                hidden=True,
                tag="sqs",
            )
            for method in ("POST", "GET")
            for path in _PATHS
        ),
        explain=explain,
        tell=tell,
    )


__all__ = ["make_surface"]
