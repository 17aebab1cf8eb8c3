-- The twin of sliding_log.rs. A key holds a list of entries, the oldest first: when units were taken, and how many had been taken in all
-- before and after them. So what is in use is the difference of two entries, and any other is found by halving: a long log is
-- never read as a whole. Entries more than a period ahead show a clock that was set back: they count as taken now. Numbers: units, period.
local function entry_at(key, index)
  local entry = call('LINDEX', key, index)
  if entry then
    local taken_at, before, after = string.match(entry, '^(%d+) (%d+) (%d+)$')
    return taken_at + 0, before + 0, after + 0
  end
end

-- The first of some entries that was taken after a moment, or has more than a sum behind it. The last of them has.
local function first_above(key, from, to, moment, sum)
  while from < to do
    local middle = floor((from + to) / 2)
    local taken_at, _, after = entry_at(key, middle)
    if taken_at > moment and after > sum then to = middle else from = middle + 1 end
  end
  return from
end

local function read(log, now)
  local key, period = log.key, log.period
  local newest_at, newest_before, after = entry_at(key, '-1')
  log.is_stored, log.expired, log.before, log.after, log.added = newest_at ~= nil, 0, 0, 0, 0
  log.stored_at, log.ahead = newest_at, nil
  if newest_at and newest_at + period > now then
    local oldest_at, before = entry_at(key, '0')
    if oldest_at + period <= now then
      log.expired = first_above(key, 1, call('LLEN', key) - 1, now - period, 0)
      oldest_at, before = entry_at(key, log.expired)
    end
    log.before, log.after = before, after
    if newest_at > now + period then
      log.ahead = first_above(key, log.expired, call('LLEN', key) - 1, now + period, -1)
      newest_at = log.ahead > log.expired and entry_at(key, log.ahead - 1) or now
      if newest_at < now then newest_at = now end
    end
    log.newest_at, log.newest_before = newest_at, newest_before
  end
end

-- Moves the entries that are ahead to where they count: to now, or to the newest of the others.
local function date_anew(log, now, tick)
  local key = log.key
  local _, before = entry_at(key, log.ahead)
  local last_at, last_before
  if log.ahead > log.expired then
    last_at, last_before = entry_at(key, log.ahead - 1)
    call('LTRIM', key, log.expired, log.ahead - 1)
  else
    call('DEL', key)
  end
  if last_at and last_at >= now then
    call('LSET', key, '-1', format('%d %d %d', last_at, last_before, log.after))
  else
    call('RPUSH', key, format('%d %d %d', now, before, log.after))
  end
  call('PEXPIRE', key, format('%d', ceil((log.newest_at + log.period - now) * tick / 1000) + slack_ms))
  read(log, now)
end

local function write(log, now, tick)
  if log.added == 0 then return end
  local key, sum = log.key, log.after + log.added
  local used_before = log.after > log.before
  if not used_before then
    if log.is_stored then call('DEL', key) end
  elseif log.expired > 0 then
    call('LPOP', key, log.expired)
  end
  -- Where time has stepped back, units are taken to be from when the last ones were, so that the log stays in order.
  if used_before and log.newest_at >= now then
    call('LSET', key, '-1', format('%d %d %d', log.newest_at, log.newest_before, sum))
  else
    call('RPUSH', key, format('%d %d %d', now, log.after, sum))
    log.newest_at = now
  end
  call('PEXPIRE', key, format('%d', ceil((log.newest_at + log.period - now) * tick / 1000) + slack_ms))
end

-- Drops the newest units. The key may live a little longer than what is left in it. What has left the period of this limit may still count
-- under one with a longer period, and stays.
local function give_back(log, units)
  if log.after == log.before then return end
  local key, kept = log.key, log.after - units
  local _, stored_before = entry_at(key, '0')
  if kept <= stored_before then
    call('DEL', key)
    return
  end
  local index = first_above(key, 0, call('LLEN', key) - 1, -1, kept - 1)
  local taken_at, before, after = entry_at(key, index)
  call('LTRIM', key, '0', index)
  if after > kept then call('LSET', key, '-1', format('%d %d %d', taken_at, before, kept)) end
end

-- When enough of the oldest entries have left.
local function leaves_at(log, over, now)
  local sum = log.before + over
  if sum > log.after then
    return (log.after > log.before and log.newest_at > now and log.newest_at or now) + log.period
  end
  local taken_at, _, after = entry_at(log.key, log.expired)
  if after < sum then
    local index = first_above(log.key, log.expired + 1, call('LLEN', log.key) - 1, -1, sum - 1)
    taken_at = entry_at(log.key, index)
  end
  return (taken_at > now + log.period and log.newest_at or taken_at) + log.period
end

local tick, now, units_max, period
for i = 1, #KEYS do
  local asks = ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, units_max, period = ARGV[place] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    now = floor(now_us / tick)
    place = place + 4
  else
    asks = -asks
  end

  local log = { key = KEYS[i], period = period }
  read(log, now)

  for _ = 1, asks do
    local verb, units, third = next_ask(log.key)
    local is_lease = verb == LEASE
    if is_lease then
      units = lease_units(units, units_max - (log.after + log.added - log.before), third)
      verb = units
    end
    if log.ahead and (verb >= 0 or (verb == BOOK and units > 0)) then date_anew(log, now, tick) end
    local outcome, span = 0, 0
    if verb == GIVE_BACK then
      if units > 0 then
        write(log, now, tick)
        read(log, now)
        -- Where others have come since, what is undone must not be theirs, which count for longer.
        if third == ANY_MOMENT or third == log.stored_at then
          give_back(log, units)
          read(log, now)
        end
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      call('DEL', log.key)
      remember_reset(log.key)
      read(log, now)
    else
      local used = log.after + log.added - log.before
      local allowed = used + units <= units_max
      if units > 0 then
        local counted = 0
        if allowed then
          if verb ~= PEEK then counted = units end
        elseif verb == BOOK then
          counted = 2 * units_max - used
          if counted > units then counted = units elseif counted < 0 then counted = 0 end
        end
        log.added = log.added + counted
        used = used + counted
      end
      if units > units_max then
        outcome = 3
      elseif not allowed then
        outcome, span = 1, leaves_at(log, used + units - units_max, now) - now
      end
    end
    local used = log.after + log.added - log.before
    local newest_at = log.after > log.before and log.newest_at or 0
    if log.added > 0 and newest_at < now then newest_at = now end
    if is_lease and outcome == 0 then span = units end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = used < units_max and units_max - used or 0
    reply[filled + 4] = used > 0 and newest_at + period - now or 0
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end
  write(log, now, tick)
end
return reply
