-- ReceiveMessage of ten, and DeleteMessageBatch. Argument: the queue. See http/claim_one.lua on connections.

local sqs = require("sqs")
local receive, delete, queue
local deletions, waiting = {}, 0

function init(arguments)
  queue = sqs.queue(arguments[1])
  receive = sqs.action("ReceiveMessage")(queue .. ',"MaxNumberOfMessages":10}')
  delete = sqs.action("DeleteMessageBatch")
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
  if body:find('"Successful"', 1, true) then
    local _, done = body:gsub('"Id":', "")
    settled = settled + done
    return
  end
  local entries = {}
  for handle in body:gmatch('"ReceiptHandle":"([^"]+)"') do
    entries[#entries + 1] = string.format('{"Id":"%d","ReceiptHandle":"%s"}', #entries, handle)
  end
  if #entries == 0 then
    empty = empty + 1
    return
  end
  waiting = waiting + 1
  deletions[waiting] = delete(queue .. ',"Entries":[' .. table.concat(entries, ",") .. "]}")
end
