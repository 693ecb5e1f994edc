-- Has the gateway accept requests, all different. Argument: the target.

local bench = require("bench")
local head, gap
local number = 0

function init(arguments)
  head, gap = bench.post("/api/v1/relay/" .. arguments[1])
end

function request()
  number = number + 1
  local body = bench.payload(number)
  return head .. #body .. gap .. body
end
