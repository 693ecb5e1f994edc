"""The SQS protocol: unmodified AWS SDKs work when given the endpoint URL."""

from __future__ import annotations

from laneway.server.access import by_action
from laneway.server.operations import Media, Operation, Response, Surface
from laneway.server.sqs.endpoint import Endpoint, QueuePath, explain, tell

# The forms of a queue's URL. An account is always twelve digits, so no other path matches.
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
                summary="Run an action of Amazon SQS, in its JSON or query protocol",
                # The handler authenticates callers by the signature over the whole request.
                role=None,
                reach=by_action,
                parameters=None if path == "/" else QueuePath,
                body=Media("application/x-amz-json-1.0"),
                answers={
                    200: Response(Media("application/x-amz-json-1.0"), "The action's result.")
                },
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
