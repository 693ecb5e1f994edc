-- SendMessageBatch of ten, all different. Argument: the queue.

local sqs = require("sqs")
local send, queue, name
local number = 0

function init(arguments)
  name = arguments[1]
  queue = sqs.queue(name)
  send = sqs.action("SendMessageBatch")
end

function request()
  local entries = {}
  for entry = 1, 10 do
    number = number + 1
    entries[entry] = string.format('{"Id":"%d","MessageBody":%s%s}', entry, sqs.body(number), sqs.order(name, number))
  end
  return send(queue .. ',"Entries":[' .. table.concat(entries, ",") .. "]}")
end
