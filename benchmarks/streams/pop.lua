-- Pops batches of 100 messages and acknowledges each batch. Argument: queue,groups. Requests go to the groups in turn.

local bench = require("bench")
local claims, head, gap = {}, nil, nil
local acks, waiting, number = {}, 0, 0

function init(arguments)
  local queue, groups = arguments[1]:match("([^,]+),(%d+)")
  for group = 1, tonumber(groups) do
    local path = "/api/v1/pop/queue/%s?batch=100&wait=true&timeout=1000&consumerGroup=g%d"
    claims[group] = bench.get(string.format(path, queue, group))
  end
  head, gap = bench.post("/api/v1/ack/batch")
end

function request()
  if waiting > 0 then
    local ack = acks[waiting]
    waiting = waiting - 1
    return ack
  end
  number = number % #claims + 1
  return claims[number]
end

local ID, NEXT = '"transactionId":"', '"partitionId":"'

-- Uses plain search, which is faster than a pattern.
local function list_acks(body)
  local lease = body:match('"leaseId":"([^"]+)"')
  local lane = body:match('"partitionId":"([^"]+)"')
  local group = body:match('"consumerGroup":"([^"]+)"')
  local rest = '","' .. NEXT:sub(2) .. lane .. '","leaseId":"' .. lease .. '","status":"completed"}'
  local found, place = {}, 1
  while true do
    local _, before = body:find(ID, place, true)
    if not before then
      return found, group
    end
    local stop = body:find('"', before + 1, true)
    found[#found + 1] = "{" .. ID .. body:sub(before + 1, stop - 1) .. rest
    place = stop
  end
end

function response(status, headers, body)
  if status == 204 then
    empty = empty + 1
  elseif body:byte(1) == 91 then -- a response to an acknowledgement begins with [
    local _, refused = body:gsub('"success":false', "")
    local _, done = body:gsub('"success":true', "")
    settled = settled + done
    empty = empty + refused
  elseif status == 200 then
    local found, group = list_acks(body)
    local answer = '{"consumerGroup":"' .. group .. '","acknowledgments":[' .. table.concat(found, ",") .. "]}"
    waiting = waiting + 1
    acks[waiting] = head .. #answer .. gap .. answer
  end
end
