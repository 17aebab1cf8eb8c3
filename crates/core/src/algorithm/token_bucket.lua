-- The twin of token_bucket.rs. A key holds its TAT. Numbers: interval, burst, the longest backlog.
for i = 1, #KEYS do
  local key, tick = KEYS[i], ARGV[place] + 0
  local interval, burst, backlog_max = ARGV[place + 2] + 0, ARGV[place + 3] + 0, ARGV[place + 4] + 0
  local asks = ARGV[place + 5] + 0
  place = place + 6

  local capacity, now = burst * interval, floor(now_us / tick)
  local tat = call('GET', key)
  local backlog_stored = tat and tat - now or 0
  local backlog = backlog_stored
  if backlog < 0 then backlog = 0 elseif backlog > backlog_max then backlog = backlog_max end
  local changed = false

  for _ = 1, asks do
    local verb, units = ARGV[place], ARGV[place + 1] + 0
    local cost = units * interval
    local outcome, span = 0, 0
    place = place + 3
    if verb == '3' then
      if backlog > 0 then
        backlog, changed = backlog - cost, true
        if backlog < 0 then backlog = 0 end
      end
    elseif verb == '4' then
      outcome = 2
    elseif verb == '5' then
      backlog, changed = 0, true
    elseif units <= burst and backlog + cost <= capacity then
      if units > 0 and verb ~= '0' then backlog, changed = backlog + cost, true end
    else
      if verb == '2' and units > 0 then
        local debt_end = 2 * capacity
        if debt_end < backlog then debt_end = backlog end
        backlog, changed = backlog + cost, true
        if backlog > debt_end then backlog = debt_end end
      elseif verb == '1' and backlog_stored > backlog then
        changed = true -- It was trimmed.
      end
      if units > burst then outcome = 3 else outcome, span = 1, backlog + cost - capacity end
    end
    reply[filled + 1], reply[filled + 2] = outcome, span
    reply[filled + 3] = backlog < capacity and floor((capacity - backlog) / interval) or 0
    reply[filled + 4] = backlog
    filled = filled + 4
  end

  if changed then
    if backlog > 0 then
      call('SET', key, format('%d', now + backlog), 'PX', format('%d', ceil(backlog * tick / 1000) + slack_ms))
    elseif tat then
      call('DEL', key)
    end
  end
end
return reply
