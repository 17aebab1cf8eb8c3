-- The beginning of every script: the arguments are counted, and the time is taken. NUMBERS is how many numbers a limit of this script has.
local KEYS, ARGV, call, floor, ceil = KEYS, ARGV, redis.call, math.floor, math.ceil
-- Numbers are written as whole ones by hand: left to itself, Lua keeps 14 digits, and Redis takes a microsecond for each.
local format = string.format

-- Before anything is done: half of a call would charge some keys and not others.
local place = 2
for _ = 1, #KEYS do
  local numbers = NUMBERS
  if ARGV[place + 3] == '0' then numbers = numbers + 5 end -- No period: the boundaries of a calendar follow.
  place = place + 3 + numbers + 3 * ARGV[place + 2 + numbers]
end
if place ~= #ARGV + 1 then return redis.error_reply('ERR wrong number of arguments') end

local seconds, micros, slack_ms
if ARGV[1] == '0' then
  local time = call('TIME')
  seconds, micros, slack_ms = time[1] + 0, time[2] + 0, 100
else
  -- Made-up time does not pass, but that of the keys does.
  micros = ARGV[1] % 1000000
  seconds, slack_ms = (ARGV[1] - micros) / 1000000, 60100
end
local now_us = seconds * 1000000 + micros
local reply, filled = { seconds, micros, 0, 0, 0, 0 }, 2
place = 2

