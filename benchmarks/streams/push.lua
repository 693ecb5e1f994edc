-- Pushes batches, each to the next partition. Every message has its own transaction id.
-- Argument: queue,batch size,partitions,a word that differs between runs.

local bench = require("bench")
local head, gap, queue, size, partitions, word
local number = 0

function init(arguments)
  local found = {}
  for part in arguments[1]:gmatch("[^,]+") do
    found[#found + 1] = part
  end
  queue, size, partitions, word = found[1], tonumber(found[2]), tonumber(found[3]), found[4]
  head, gap = bench.post("/api/v1/push")
end

function request()
  local items = {}
  local start = string.format('{"queue":"%s","partition":"p%d","transactionId":"%s-', queue, number % partitions, word)
  local payload = '","payload":' .. bench.payload(number) .. "}"
  for place = 1, size do
    items[place] = start .. number .. "-" .. place .. payload
  end
  number = number + 1
  local body = '{"items":[' .. table.concat(items, ",") .. "]}"
  return head .. #body .. gap .. body
end

function response(status, headers, body)
  if status ~= 201 then
    empty = empty + 1
  end
end
