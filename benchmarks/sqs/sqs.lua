-- Shared by the scripts: requests in SQS's JSON protocol, bodies of 200 bytes, and 1,000 message groups.

require("bench")
local sqs = {}

-- AWS SDKs always sign. moto reads the service from the credential scope; without it, it responds as S3.
local HEAD = "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-amz-json-1.0\r\n"
  .. "X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sqs/aws4_request, "
  .. "SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" .. string.rep("0", 64) .. "\r\n"
  .. "X-Amz-Target: AmazonSQS.%s\r\nContent-Length: "

-- Returns a function that makes a request from a body.
function sqs.action(name)
  local head = string.format(HEAD, wrk.headers["Host"], name)
  return function(body)
    return head .. #body .. "\r\n\r\n" .. body
  end
end

-- Returns the first members of every request on a queue.
function sqs.queue(name)
  return string.format('{"QueueUrl":"http://%s/000000000000/%s"', wrk.headers["Host"], name)
end

-- A body of exactly 200 bytes, as JSON text.
function sqs.body(number)
  local text = string.format("order %d, customer c-%d: ", number, number % 9973)
  return '"' .. text .. string.rep("x", 200 - #text) .. '"'
end

-- Returns the members that a FIFO message has in addition: a group, one of 1,000 in turn, and a deduplication id.
function sqs.order(queue, number)
  if not queue:find(".fifo", 1, true) then
    return ""
  end
  return string.format(',"MessageGroupId":"g%d","MessageDeduplicationId":"%s-%d"', number % 1000, run, number)
end

-- Deduplication ids must differ between runs.
run = string.format("%d-%d", os.time(), math.floor(os.clock() * 1e6))

return sqs
