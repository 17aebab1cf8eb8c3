-- The twin of sliding_window.rs. A key holds the start of its window, what that has counted, and what the window before has.
-- Numbers: units, period.
local all_stored = call('MGET', unpack(KEYS))
local tick, offset, now, units_max, count_max, period, start
for i = 1, #KEYS do
  local key, asks = KEYS[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, offset, units_max, period = ARGV[place] + 0, ARGV[place + 1] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    count_max, now = 2 * units_max, floor(now_us / tick) + offset
    start = now - now % period
    place = place + 4
  else
    asks = -asks
  end

  -- Where the counts are stored, and where they count. All that is stored, and what counts of it: another limit may have left more behind
  -- than this one remembers.
  local stored_start, count_start, whole_current, whole_previous = start, start, 0, 0
  local stored, is_ahead, changed = all_stored[i], false, false
  if stored then
    local s, c, p = string.match(stored, '^(%d+) (%d+) (%d+)$')
    s, c, p = s + 0, c + 0, p + 0
    if s >= start then
      stored_start, whole_current, whole_previous = s, c, p
      if s > start then is_ahead, count_start = true, start + period end
    elseif s + period == start then
      whole_previous = c
    end
  end
  local current = whole_current < count_max and whole_current or count_max
  local previous = whole_previous < count_max and whole_previous or count_max
  -- What the sliding window still overlaps of the previous one.
  local left = count_start + period - (is_ahead and count_start or now)
  local faded = ceil(previous * left / period)

  for _ = 1, asks do
    local verb, units, third = next_ask(key)
    local is_lease = verb == LEASE
    if is_lease then
      units = lease_units(units, units_max - faded - current, third)
      verb = units
    end
    local outcome, span = 0, 0
    if verb == GIVE_BACK then
      local counted_at = third + offset
      if is_ahead or (counted_at >= start and counted_at < start + period) then
        -- Who gives back may know an older limit: nothing is trimmed to that.
        if whole_current > 0 then whole_current, changed = whole_current - units, true end
        if whole_current < 0 then whole_current = 0 end
        current = whole_current < count_max and whole_current or count_max
      elseif counted_at >= start - period and counted_at < start then
        if whole_previous > 0 then whole_previous, changed = whole_previous - units, true end
        if whole_previous < 0 then whole_previous = 0 end
        previous = whole_previous < count_max and whole_previous or count_max
        faded = ceil(previous * left / period)
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      current, previous, faded, changed = 0, 0, 0, true
      whole_current, whole_previous = 0, 0
      remember_reset(key)
    else
      local room = units_max - current - units
      local allowed = room >= 0 and previous * left <= room * period
      local counted = 0
      if units > 0 then
        if allowed then
          if verb ~= PEEK then counted = units end
        elseif verb == BOOK then
          counted = count_max - faded - current
          if counted > units then counted = units elseif counted < 0 then counted = 0 end
        end
      end
      if counted > 0 or (verb >= 0 and stored_start > count_start) then
        stored_start, current, changed = count_start, current + counted, true
        whole_current, whole_previous = current, previous
      end
      if units > units_max then
        outcome = 3
      elseif not allowed then
        local fading, fits, elapsed = previous, units_max - units - current, period - left
        if fits < 0 then -- Only the next window can take it, when enough of this one has faded there.
          fading, fits, elapsed = current, units_max - units, -left
        end
        local part = fading > 0 and floor(fits * period / fading) or period
        if part > period then part = period end
        span = period - part - elapsed
        if span < 0 then span = 0 end
        if is_ahead then span = span + count_start - now end
        outcome = 1
      end
    end
    if is_ahead and changed and current == 0 and previous == 0 then
      is_ahead, stored_start, count_start, left = false, start, start, start + period - now
    end
    local used = faded + current
    if is_lease and outcome == 0 then span = units end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = used < units_max and units_max - used or 0
    reply[filled + 4] = count_start + period - now
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    if whole_current > 0 or whole_previous > 0 then
      local ttl = stored_start + (whole_current > 0 and 2 or 1) * period - now
      local state = format('%d %d %d', stored_start, whole_current, whole_previous)
      call('SET', key, state, 'PX', format('%d', ceil(ttl * tick / 1000) + slack_ms))
    elseif stored then
      call('DEL', key)
    end
  end
end
return reply
