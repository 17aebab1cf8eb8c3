-- The twin of sub_windows.rs. A key holds the start of its newest sub-window and what the last ones have counted, the newest first.
-- Numbers: units, how many sub-windows, their period, whether the oldest counts as a whole (1) or by its overlap (0).
local all_stored = call('MGET', unpack(KEYS))
local tick, offset, now, units_max, oldest_age, period, start, is_whole
for i = 1, #KEYS do
  local key, asks = KEYS[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, offset, units_max = ARGV[place] + 0, ARGV[place + 1] + 0, ARGV[place + 2] + 0
    oldest_age, period, is_whole = ARGV[place + 3] + 0, ARGV[place + 4] + 0, ARGV[place + 5] == '1'
    now = floor(now_us / tick) + offset
    start = now - now % period
    place = place + 6
  else
    asks = -asks
  end

  -- Where the counts are stored, and where they count. counts[1] is the newest; counts[oldest_age + 1] the oldest that matters.
  local stored_start, count_start, counts, younger = start, start, {}, 0
  local stored, is_ahead, changed = all_stored[i], false, false
  -- A limit that looks further back may have stored more: that stays as long as nothing is taken under this one.
  local stored_age, is_taken = oldest_age, false
  for age = 0, oldest_age do counts[age + 1] = 0 end
  if stored then
    local age
    for number in string.gmatch(stored, '%d+') do
      if not age then
        local s = number + 0
        if s > start then
          is_ahead, stored_start, age = true, s, 0
          -- What comes from beyond a whole period counts in the very next sub-window.
          count_start = s - start <= oldest_age * period and s or start + period
        else
          age = (start - s) / period
          if age > oldest_age then break end
        end
      else
        counts[age + 1] = number + 0
        if age < oldest_age then younger = younger + number end
        if age > stored_age then stored_age = age end
        age = age + 1
      end
    end
  end
  local left = count_start + period - (is_ahead and count_start or now)
  local oldest = counts[oldest_age + 1]
  if not is_whole then oldest = ceil(oldest * left / period) end

  for _ = 1, asks do
    local verb, units, third = next_ask(key)
    local is_lease = verb == LEASE
    if is_lease then
      units = lease_units(units, units_max - younger - oldest, third)
      verb = units
    end
    local outcome, span = 0, 0
    if verb == GIVE_BACK then
      local age = 0
      if not is_ahead then
        local counted_at = third + offset
        age = (start - (counted_at - counted_at % period)) / period
      end
      local count = counts[age + 1]
      if count and count > 0 then
        if units > count then units = count end
        counts[age + 1], changed = count - units, true
        if age < oldest_age then
          younger = younger - units
        elseif age == oldest_age then
          oldest = is_whole and count - units or ceil((count - units) * left / period)
        end
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      for age = 0, stored_age do counts[age + 1] = 0 end
      younger, oldest, changed = 0, 0, true
      remember_reset(key)
    else
      local used = younger + oldest
      local allowed = used + units <= units_max
      local counted = 0
      if units > 0 then
        if allowed then
          if verb ~= PEEK then counted = units end
        elseif verb == BOOK then
          counted = 2 * units_max - used
          if counted > units then counted = units elseif counted < 0 then counted = 0 end
        end
      end
      if counted > 0 or (verb >= 0 and stored_start > count_start) then
        stored_start, counts[1], younger, changed = count_start, counts[1] + counted, younger + counted, true
        is_taken = is_taken or counted > 0
      end
      if units > units_max then
        outcome = 3
      elseif not allowed then
        -- One coming sub-window after the other is looked at for the first moment with enough room.
        local room, sum, elapsed, wait = units_max - units, younger, period - left
        for passed = 0, oldest_age do
          local count = counts[oldest_age - passed + 1]
          if passed > 0 then sum = sum - count end
          if sum <= room and (not is_whole or count <= room - sum) then
            local part = period
            if not is_whole and count > 0 then
              part = floor((room - sum) * period / count)
              if part > period then part = period end
            end
            wait = passed * period + period - part - elapsed
            break
          end
        end
        outcome, span = 1, wait or (oldest_age + 1) * period - elapsed
        if span < 0 then span = 0 end
        if is_ahead then span = span + count_start - now end
      end
    end
    if is_ahead and changed and younger == 0 and counts[oldest_age + 1] == 0 and stored_age == oldest_age then
      is_ahead, stored_start, count_start, left = false, start, start, start + period - now
    end
    local used = younger + oldest
    if is_lease and outcome == 0 then span = units end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = used < units_max and units_max - used or 0
    reply[filled + 4] = oldest_age * period - now % (oldest_age * period)
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    local first, last
    for age = 0, is_taken and oldest_age or stored_age do
      if counts[age + 1] > 0 then
        first, last = first or age, age
      end
    end
    if first then
      local state = format('%d ', stored_start) .. table.concat(counts, ' ', 1, last + 1)
      local left_ms = ceil((stored_start + (oldest_age + 1 - first) * period - now) * tick / 1000) + slack_ms
      if is_taken then
        call('SET', key, state, 'PX', format('%d', left_ms))
      else
        call('SET', key, state, 'KEEPTTL')
        call('PEXPIRE', key, format('%d', left_ms), 'GT')
      end
    elseif stored then
      call('DEL', key)
    end
  end
end
return reply
