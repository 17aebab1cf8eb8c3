-- The twin of leaky_queue.rs. A key holds the moment at which the next request may start. Numbers: interval, units, the longest wait.
local stored = call('MGET', unpack(KEYS))
local tick, now, interval, units_max, wait_max, debt_max
for i = 1, #KEYS do
  local key, next, asks = KEYS[i], stored[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, interval, units_max = ARGV[place] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    wait_max, now = ARGV[place + 4] + 0, floor(now_us / tick)
    debt_max = wait_max + 2 * units_max * interval
    place = place + 5
  else
    asks = -asks
  end

  -- What is stored, and what counts of it: another limit may have left more behind than this one remembers.
  local whole = next and next - now or 0
  if whole < 0 then whole = 0 end
  local wait = whole < debt_max and whole or debt_max
  local changed = false

  for _ = 1, asks do
    local verb, units, counted_at = next_ask(key)
    local cost = units * interval
    local outcome, span = 0, 0
    if verb == GIVE_BACK then
      -- Who gives back may know an older limit: nothing is trimmed to that.
      if whole > 0 then
        whole, changed = whole - undone(cost, counted_at, now), true
        if whole < 0 then whole = 0 end
        wait = whole < debt_max and whole or debt_max
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      wait, whole, changed = 0, 0, true
      remember_reset(key)
    else
      if verb >= 0 and whole > wait then whole, changed = wait, true end -- It is trimmed.
      if units <= units_max and wait <= wait_max then
        span = wait
        if units > 0 and verb ~= PEEK then
          wait, changed = wait + cost, true
          whole = wait
        end
      else
        if verb == BOOK and units > 0 then
          wait, changed = wait + cost, true
          if wait > debt_max then wait = debt_max end
          whole = wait
        end
        if units > units_max then outcome = 3 else outcome, span = 1, wait - wait_max end
      end
    end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = wait <= wait_max and floor((wait_max - wait) / interval) + 1 or 0
    reply[filled + 4] = wait
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    if whole > 0 then
      call('SET', key, format('%d', now + whole), 'PX', format('%d', ceil(whole * tick / 1000) + slack_ms))
    elseif next then
      call('DEL', key)
    end
  end
end
return reply
