-- Enqueues single messages, all different. Argument: the queue.

local bench = require("bench")
local queue, head, gap
local number = 0

function init(arguments)
  queue = arguments[1]
  head, gap = bench.post("/api/queue/message")
end

function request()
  number = number + 1
  local body = bench.message(queue, number)
  return head .. #body .. gap .. body
end
