-- Enqueues batches of 100 messages. Argument: the queue. The batches are made before the load and sent in turn.

local bench = require("bench")
local requests = {}
local number = 0

function init(arguments)
  local head, gap = bench.post("/api/queue/batch")
  for batch = 1, 16 do
    local messages = {}
    for place = 1, 100 do
      messages[place] = bench.message(arguments[1], batch * 100 + place)
    end
    local body = "[" .. table.concat(messages, ",") .. "]"
    requests[batch] = head .. #body .. gap .. body
  end
end

function request()
  number = number % #requests + 1
  return requests[number]
end
