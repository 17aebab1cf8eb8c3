-- The twin of token_bucket.rs. A key holds its TAT. Numbers: interval, burst, the longest backlog.
local stored = call('MGET', unpack(KEYS))
local tick, now, interval, burst, backlog_max, capacity
for i = 1, #KEYS do
  local key, tat, asks = KEYS[i], stored[i], ARGV[place] + 0
  place = place + 1
  if asks > 0 then
    tick, interval, burst = ARGV[place] + 0, ARGV[place + 2] + 0, ARGV[place + 3] + 0
    backlog_max, capacity, now = ARGV[place + 4] + 0, burst * interval, floor(now_us / tick)
    place = place + 5
  else
    asks = -asks
  end

  -- What is stored, and what counts of it: another limit may have left more behind than this one remembers.
  local whole = tat and tat - now or 0
  if whole < 0 then whole = 0 end
  local backlog = whole < backlog_max and whole or backlog_max
  local changed = false

  for _ = 1, asks do
    local verb, units, third = next_ask(key)
    local is_lease = verb == LEASE
    if is_lease then
      units = lease_units(units, (capacity - backlog) / interval, third)
      verb = units
    end
    local cost = units * interval
    local outcome, span = 0, 0
    if verb == GIVE_BACK then
      -- Who gives back may know an older limit: nothing is trimmed to that.
      if whole > 0 then
        whole, changed = whole - undone(cost, third, now), true
        if whole < 0 then whole = 0 end
        backlog = whole < backlog_max and whole or backlog_max
      end
    elseif verb == RELEASE then
      outcome = 2
    elseif verb == RESET then
      backlog, whole, changed = 0, 0, true
      remember_reset(key)
    elseif units <= burst and backlog + cost <= capacity then
      if units > 0 and verb ~= PEEK then
        backlog, changed = backlog + cost, true
        whole = backlog
      end
    else
      if verb == BOOK and units > 0 then
        local debt_end = 2 * capacity
        if debt_end < backlog then debt_end = backlog end
        backlog, changed = backlog + cost, true
        if backlog > debt_end then backlog = debt_end end
        whole = backlog
      elseif verb >= 0 and whole > backlog then
        whole, changed = backlog, true -- It is trimmed.
      end
      if units > burst then outcome = 3 else outcome, span = 1, backlog + cost - capacity end
    end
    if is_lease and outcome == 0 then span = units end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = backlog < capacity and floor((capacity - backlog) / interval) or 0
    reply[filled + 4] = backlog
    filled = filled + 4
    if once then end_once(outcome, tick) end
  end

  if changed then
    if whole > 0 then
      call('SET', key, format('%d', now + whole), 'PX', format('%d', ceil(whole * tick / 1000) + slack_ms))
    elseif tat then
      call('DEL', key)
    end
  end
end
return reply
