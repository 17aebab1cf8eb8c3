-- The twin of fixed_window.rs. A key holds the start of its window and what it has counted. Numbers: units, period. A calendar has no
-- period (0), and five boundaries after it: of the window before the asker's, of its own, and of two more.
local all_stored = call('MGET', unpack(KEYS))
local tick, offset, now, units_max, count_max, start, finish, finish_of_next
for i = 1, #KEYS do
  local key, asks = KEYS[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    local period
    tick, offset, units_max, period = ARGV[place] + 0, ARGV[place + 1] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    count_max, now = 2 * units_max, floor(now_us / tick) + offset
    place = place + 4
    if period > 0 then
      start = now - now % period
      finish, finish_of_next = start + period, start + 2 * period
    else
      start = nil
      for b = place, place + 2 do
        if now >= ARGV[b] + 0 and now < ARGV[b + 1] + 0 then
          start, finish, finish_of_next = ARGV[b] + 0, ARGV[b + 1] + 0, ARGV[b + 2] + 0
        end
      end
      place = place + 5
    end
  else
    asks = -asks
  end

  local stored, is_ahead, changed = false, false, false
  -- Where the count is stored, and where it counts. All that is stored, and what counts of it: another limit may have left more behind than
  -- this one remembers.
  local stored_start, count_start, count_finish, whole, count = start, start, finish, 0, 0
  if start then
    stored = all_stored[i]
    if stored then
      local s, c = string.match(stored, '^(%d+) (%d+)$')
      s, c = s + 0, c + 0
      if s >= start then
        stored_start, whole, count = s, c, c < count_max and c or count_max
        if s > start then is_ahead, count_start, count_finish = true, finish, finish_of_next end
      end
    end
  end

  for _ = 1, asks do
    -- Where the window is not known nothing is done, and nothing is remembered as done.
    local verb, units, third = next_ask(start and key)
    local is_lease = verb == LEASE
    if is_lease then
      units = lease_units(units, units_max - count, third)
      verb = units
    end
    local outcome, span = 0, 0
    if not start then
      outcome = 4
    elseif verb == GIVE_BACK then
      local counted_at = third + offset
      -- Who gives back may know an older limit: nothing is trimmed to that.
      if whole > 0 and (is_ahead or (counted_at >= start and counted_at < finish)) then
        whole, changed = whole - units, true
        if whole < 0 then whole = 0 end
        count = whole < count_max and whole or count_max
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      count, whole, changed = 0, 0, true
      remember_reset(key)
    else
      local allowed = count + units <= units_max
      if allowed and units > 0 and verb ~= PEEK then
        stored_start, count, changed = count_start, count + units, true
        whole = count
      elseif not allowed and units > 0 and verb == BOOK then
        stored_start, count, changed = count_start, count + units, true
        if count > count_max then count = count_max end
        whole = count
      elseif verb >= 0 and stored_start > count_start then
        stored_start, whole, changed = count_start, count, true -- It is trimmed.
      end
      if units > units_max then
        outcome = 3
      elseif not allowed then
        outcome, span = 1, count_finish - now
      end
    end
    if count == 0 and is_ahead and changed then
      is_ahead, stored_start, count_start, count_finish = false, start, start, finish
    end
    if is_lease and outcome == 0 then span = units end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = start and count < units_max and units_max - count or 0
    reply[filled + 4] = start and count_finish - now or -1
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    if whole > 0 then
      local ttl = stored_start - count_start + count_finish - now
      local state = format('%d %d', stored_start, whole)
      call('SET', key, state, 'PX', format('%d', ceil(ttl * tick / 1000) + slack_ms))
    elseif stored then
      call('DEL', key)
    end
  end
end
return reply
