-- The twin of concurrency.rs. A key holds a sorted set: the number of every hold, by its deadline. Below zero, as -1 and so much less, stand
-- the units held in all ('held'), the last number given out ('last'), and the units of each hold of several ('u' and its number).
-- Numbers: units, the longest hold.
local function number_below(key, member)
  local score = call('ZSCORE', key, member)
  return score and -1 - score
end

local function units_of(key, hold)
  return number_below(key, 'u' .. hold) or 1
end

local function remove(key, hold)
  call('ZREM', key, hold, 'u' .. hold)
end

-- Holds that were given out more than the longest hold ahead show a clock that was set back: they end as if they had been given out now.
-- A deadline that a limit with a longer hold gave out is right, and stays.
local function date_anew(key, latest)
  local dated = false
  local beyond = call('ZRANGEBYSCORE', key, format('(%d', latest), '+inf')
  for b = 1, #beyond do
    if beyond[b] + 0 > latest then
      call('ZADD', key, format('%d', latest), beyond[b])
      dated = true
    end
  end
  return dated
end

local tick, now, units_max, hold_max
for i = 1, #KEYS do
  local key, asks = KEYS[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, units_max, hold_max = ARGV[place] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    now = floor(now_us / tick)
    place = place + 4
  else
    asks = -asks
  end

  local held, last, changed, is_ahead = number_below(key, 'held'), 0, false, false
  local expired = {}
  if held then
    expired = call('ZRANGEBYSCORE', key, '0', format('%d', now))
    for e = 1, #expired do held = held - units_of(key, expired[e]) end
    last = number_below(key, 'last')
    is_ahead = last > now + hold_max
  else
    held = 0
  end

  for _ = 1, asks do
    local verb, units, holder = next_ask(key)
    local outcome, span = 0, 0
    local asks_for = units > 0 and (verb >= 0 or verb == BOOK)
    local dated = is_ahead and asks_for and date_anew(key, now + hold_max)
    changed = changed or dated
    local fits = held + units <= units_max
    local takes = fits and asks_for
    if takes or dated or verb == GIVE_BACK or verb == RELEASE then
      for e = 1, #expired do remove(key, expired[e]) end
      changed = changed or #expired > 0
      expired = {}
    end
    if verb == GIVE_BACK then
      -- The newest units go.
      if units >= held then
        if held > 0 then
          call('DEL', key)
          changed = true
        end
        held, units = 0, 0
      end
      while units > 0 do
        local hold = call('ZRANGE', key, '-1', '-1')[1]
        local held_there = units_of(key, hold)
        changed = true
        if held_there > units then
          call('ZADD', key, format('%d', -1 - (held_there - units)), 'u' .. hold)
          held, units = held - units, 0
        else
          remove(key, hold)
          held, units = held - held_there, units - held_there
        end
      end
    elseif verb == RELEASE then
      local hold = format('%016d', holder)
      if call('ZSCORE', key, hold) then
        held, changed = held - units_of(key, hold), true
        remove(key, hold)
      else
        outcome = 2
      end
    elseif verb == RESET then
      call('DEL', key)
      held, expired, changed = 0, {}, true
    elseif takes then
      last = now > last + 1 and now or last + 1
      local hold = format('%016d', last)
      call('ZADD', key, format('%d', now + hold_max), hold)
      if units > 1 then call('ZADD', key, format('%d', -1 - units), 'u' .. hold) end
      held, span, changed = held + units, last, true
    elseif not fits then
      outcome = units > units_max and 3 or 2
    end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = held < units_max and units_max - held or 0
    reply[filled + 4] = -1
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    -- A number whose time has not passed is remembered, or somebody else would get it once more.
    if held > 0 or last >= now then
      local deadline = held > 0 and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 or last
      if deadline < last then deadline = last end
      call('ZADD', key, format('%d', -1 - held), 'held', format('%d', -1 - last), 'last')
      call('PEXPIRE', key, format('%d', ceil((deadline - now) * tick / 1000) + slack_ms))
    else
      call('DEL', key)
    end
  end
end
return reply
