-- Dequeues single messages and acks each. Argument: the queue.
-- wrk does not tell a script which connection it writes a request for. So the next connection to write acks the
-- message. A connection sends one request after each response, so it never has two requests in progress.

local bench = require("bench")
local claim, head, gap
local acks, waiting = {}, 0

function init(arguments)
  claim = bench.get("/api/queue/message?queue=" .. arguments[1])
  head, gap = bench.post("/api/queue/ack")
end

function request()
  if waiting == 0 then
    return claim
  end
  local ack = acks[waiting]
  waiting = waiting - 1
  return ack
end

function response(status, headers, body)
  if status == 404 then
    empty = empty + 1
  elseif status == 200 then
    local id, token = body:match('^{"id":"([^"]+)".*"lock_token":"([^"]+)"')
    if id then
      local answer = '{"id":"' .. id .. '","lock_token":"' .. token .. '"}'
      waiting = waiting + 1
      acks[waiting] = head .. #answer .. gap .. answer
    elseif body:find("acknowledged", 1, true) then
      settled = settled + 1
    end
  end
end
