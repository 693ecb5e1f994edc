-- SendMessage, all different. Argument: the queue.

local sqs = require("sqs")
local send, queue, name
local number = 0

function init(arguments)
  name = arguments[1]
  queue = sqs.queue(name)
  send = sqs.action("SendMessage")
end

function request()
  number = number + 1
  return send(queue .. ',"MessageBody":' .. sqs.body(number) .. sqs.order(name, number) .. "}")
end
