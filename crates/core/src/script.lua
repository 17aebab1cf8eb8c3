-- The beginning of every script: what is common to all keys of a call.
local KEYS, ARGV, call, floor, ceil = KEYS, ARGV, redis.call, math.floor, math.ceil
-- Numbers are written as whole ones by hand: left to itself, Lua keeps 14 digits, and Redis takes a microsecond for each.
local format = string.format

-- Before anything is done: half of a call would charge some keys and not others.
if ARGV[#ARGV] ~= '.' then return redis.error_reply('ERR a call without its end') end

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
local reply, filled, place = { seconds, micros, 0, 0, 0, 0 }, 2, 2

-- Whoever gives units back says when they were counted, or that it does not matter.
local ANY_MOMENT = 9007199254740991

-- By how much a backlog becomes shorter: less the time since then, in which as much has come back by itself.
local function undone(cost, counted_at, now)
  local passed = counted_at < now and now - counted_at or 0
  return passed < cost and cost - passed or 0
end

local PEEK, BOOK, GIVE_BACK, RELEASE, RESET, LEASE, RETURN = -1, -2, -3, -4, -5, -6, -7
-- A settlement, which counts once: the second kind gives units back.
local SETTLE_BOOK, SETTLE_RETURN = -8, -9

-- A number is remembered for a minute after its deadline: a clock that is set forward and back again forgets nothing.
local REMEMBERED_MS = 60000

-- Whether a number comes in time, and for the first time. What has a number can be sent until it is known to have arrived.
local function is_first(key, deadline_us, number, sender)
  local left_ms = format('%d', ceil((deadline_us - now_us) / 1000) + REMEMBERED_MS + slack_ms)
  return now_us <= deadline_us and call('SET', key .. ':' .. number, sender, 'NX', 'PX', left_ms)
end

-- When a key was reset is remembered for as long as anything may come back that was counted before: a reservation lives for a day.
local RESET_REMEMBERED_MS = '90000000'

local function remember_reset(key)
  call('SET', key .. ':reset', format('%d', now_us), 'PX', RESET_REMEMBERED_MS)
end

-- Whether what was counted at a moment has been forgotten since: then it does not come back to a count of others.
local function is_forgotten(key, counted_us)
  local reset_us = call('MGET', key .. ':reset')[1]
  return reset_us and counted_us <= reset_us + 0
end

-- The id of a request stands beside its counter: what it is bound to, how many have it, how it came out, and when it was counted. A request without
-- an id does not come here.
local TAKE_ONCE, BOOK_ONCE, UNDO_ONCE = -10, -11, -13
local ID_MS = '600000'
-- What is added to the outcome of a repeat. A repeat of another request comes out as 2.
local REPEATED = 8
local once

local function next_once(key, verb, units, third)
  if not key then return RELEASE, 0, 0 end
  local place_of_id, fingerprint = key .. ':id:' .. ARGV[place], ARGV[place + 1]
  local stored = call('MGET', place_of_id)[1]
  if not stored then
    if verb == UNDO_ONCE then return GIVE_BACK, 0, 0 end
    once = { place = place_of_id, fingerprint = fingerprint, is_fact = verb ~= TAKE_ONCE }
    if verb == TAKE_ONCE then return units, units, 0 end
    return verb == BOOK_ONCE and BOOK or GIVE_BACK, units, third
  end
  local bound_to, users, outcome, counted_at = string.match(stored, '^(%d+) (%d+) (%d+) (%d+)$')
  local function set_users(number)
    local value = bound_to .. format(' %d ', number) .. outcome .. ' ' .. counted_at
    call('SET', place_of_id, value, 'KEEPTTL')
  end
  once = { is_repeated = true }
  if bound_to ~= fingerprint then return RELEASE, 0, 0 end
  if verb ~= UNDO_ONCE then
    set_users(users + 1)
    -- A booking beyond the limit was counted and denied: how the key stands now is the answer.
    if outcome ~= '0' then return PEEK, 0, 0 end
    return GIVE_BACK, 0, 0
  end
  if users + 0 > 1 then
    set_users(users - 1)
    return GIVE_BACK, 0, 0
  end
  call('DEL', place_of_id)
  return GIVE_BACK, units, third == ANY_MOMENT and third or counted_at + 0
end

-- After an ask for an id: remembers it if the key was charged.
local function end_once(outcome, tick)
  if once.is_repeated then
    reply[filled - 3] = outcome + REPEATED
  elseif outcome == 0 or once.is_fact and outcome ~= 4 then
    local counted = format(' 1 %d %d', outcome == 0 and 0 or 1, floor(now_us / tick))
    call('SET', once.place, once.fingerprint .. counted, 'PX', ID_MS)
  end
  once = nil
end

-- The verb, the units, and a third value. A take is written as its units alone, and that is its verb. Without a key, nothing comes back.
local function next_ask(key)
  local verb = ARGV[place] + 0
  if verb >= 0 then
    place = place + 1
    return verb, verb, 0
  end
  local units, third = ARGV[place + 1] + 0, ARGV[place + 2] + 0
  place = place + 3
  if verb <= TAKE_ONCE then
    verb, units, third = next_once(key, verb, units, third)
    place = place + 2
  elseif verb <= RETURN then
    local counted_us, deadline_us, number = ARGV[place] + 0, ARGV[place + 1] + 0, ARGV[place + 2]
    place = place + 3
    local sender = ''
    if verb ~= RETURN then sender, place = ARGV[place], place + 1 end
    if key and is_first(key, deadline_us, number, sender) then
      verb = verb == SETTLE_BOOK and BOOK or GIVE_BACK
      if verb == GIVE_BACK and is_forgotten(key, counted_us) then units = 0 end
    elseif key and sender ~= '' and call('MGET', key .. ':' .. number)[1] == sender then
      verb, units = GIVE_BACK, 0 -- The same sender repeats what was done.
      once = { is_repeated = true }
    else
      verb = RELEASE -- A refusal is answered like the release of an unknown hold.
    end
  end
  return verb, units, third
end

-- How many units one of so many nodes is granted at once.
local function lease_units(wanted, room, nodes)
  local units = floor(room / nodes)
  if units > wanted then units = wanted end
  return units > 1 and units or 1
end

