-- ReceiveMessage of one, and DeleteMessage. Argument: the queue. See http/claim_one.lua on connections.

local sqs = require("sqs")
local receive, delete, queue
local deletions, waiting = {}, 0

function init(arguments)
  queue = sqs.queue(arguments[1])
  receive = sqs.action("ReceiveMessage")(queue .. "}")
  delete = sqs.action("DeleteMessage")
end

function request()
  if waiting == 0 then
    return receive
  end
  local deletion = deletions[waiting]
  waiting = waiting - 1
  return deletion
end

function response(status, headers, body)
  if status ~= 200 then
    return
  end
  local handle = body:match('"ReceiptHandle":"([^"]+)"')
  if handle then
    waiting = waiting + 1
    deletions[waiting] = delete(queue .. ',"ReceiptHandle":"' .. handle .. '"}')
  elseif body == "" then
    settled = settled + 1
  else
    empty = empty + 1
  end
end
