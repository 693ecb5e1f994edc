-- Shared by the scripts: requests as bytes, bodies of 200 bytes, and a last line with the results as JSON.
-- Threads count in globals, the only values that done() can read.

local bench = {}

settled, empty = 0, 0

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency)
  local all_settled, all_empty = 0, 0
  for _, thread in ipairs(threads) do
    all_settled = all_settled + thread:get("settled")
    all_empty = all_empty + thread:get("empty")
  end
  local errors = summary.errors
  io.write(string.format(
    'found {"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d,"settled":%d,"empty":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout, all_settled, all_empty))
end

function bench.get(path)
  return string.format("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, wrk.headers["Host"])
end

-- Returns the request's text before the content length, and the text between the length and the body.
function bench.post(path)
  local head = "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "
  return string.format(head, path, wrk.headers["Host"]), "\r\n\r\n"
end

-- A payload of exactly 200 bytes.
function bench.payload(number)
  local head = string.format('{"order": %d, "customer": "c-%d", "note": "', number, number % 9973)
  return head .. string.rep("x", 200 - #head - 2) .. '"}'
end

function bench.message(queue, number)
  return string.format('{"queue":"%s","type":"order","payload":%s}', queue, bench.payload(number))
end

return bench
