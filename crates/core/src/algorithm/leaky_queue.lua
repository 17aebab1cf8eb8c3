-- The twin of leaky_queue.rs. A key holds the moment at which the next request may start. Numbers: interval, units, the longest wait.
for i = 1, #KEYS do
  local key, tick = KEYS[i], ARGV[place] + 0
  local interval, units_max, wait_max = ARGV[place + 2] + 0, ARGV[place + 3] + 0, ARGV[place + 4] + 0
  local asks = ARGV[place + 5] + 0
  place = place + 6

  local debt_max, now = wait_max + 2 * units_max * interval, floor(now_us / tick)
  local next = call('GET', key)
  local wait_stored = next and next - now or 0
  local wait = wait_stored
  if wait < 0 then wait = 0 elseif wait > debt_max then wait = debt_max end
  local changed = false

  for _ = 1, asks do
    local verb, units = ARGV[place], ARGV[place + 1] + 0
    local cost = units * interval
    local outcome, span = 0, 0
    place = place + 3
    if verb == '3' then
      if wait > 0 then
        wait, changed = wait - cost, true
        if wait < 0 then wait = 0 end
      end
    elseif verb == '4' then
      outcome = 2
    elseif verb == '5' then
      wait, changed = 0, true
    else
      if verb == '1' and wait_stored > debt_max then changed = true end -- It was trimmed.
      if units <= units_max and wait <= wait_max then
        span = wait
        if units > 0 and verb ~= '0' then wait, changed = wait + cost, true end
      else
        if verb == '2' and units > 0 then
          wait, changed = wait + cost, true
          if wait > debt_max then wait = debt_max end
        end
        if units > units_max then outcome = 3 else outcome, span = 1, wait - wait_max end
      end
    end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = wait <= wait_max and floor((wait_max - wait) / interval) + 1 or 0
    reply[filled + 4] = wait
    filled = filled + 4
  end

  if changed then
    if wait > 0 then
      call('SET', key, format('%d', now + wait), 'PX', format('%d', ceil(wait * tick / 1000) + slack_ms))
    elseif next then
      call('DEL', key)
    end
  end
end
return reply
