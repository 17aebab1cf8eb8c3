-- Asks Tollgate about a request: `http-request lua.tollgate URL HEADERS`. A denial goes to the client as it is; without an answer the
-- request passes. HEADERS are those of the client that are handed over, with commas between them, or `-` for none.
--
-- What HAProxy asks must fit into one of its buffers, or the question cannot be asked. So not all headers are handed over; and who sends more
-- of what is than fits is turned away. Cut off, it would be a way around rules that look at its end.

-- How many bytes a header may have, all its values together, and the path with its query.
local HEADER_BYTES_MAX = 512
local PATH_BYTES_MAX = 4096

-- What the client is told about its limits, if its request passes.
local TOLD = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-policy", "ratelimit"}

local function refuse(txn, status, reason)
    return txn:done(txn:reply({status = status, reason = reason}))
end

-- All values of a header, as a list, and how many bytes they have.
local function all(values)
    local list, bytes = {}, 0
    for at = 0, #values do -- HAProxy counts from 0
        list[at + 1] = values[at]
        bytes = bytes + #values[at]
    end
    return list, bytes
end

core.register_action("tollgate", {"http-req"}, function(txn, url, names)
    local path, method, host = txn.f:pathq(), txn.f:method(), txn.f:req_hdr("host") or ""
    if #path > PATH_BYTES_MAX then return refuse(txn, 414, "URI Too Long") end
    if #method > HEADER_BYTES_MAX then return refuse(txn, 501, "Not Implemented") end
    if #host > HEADER_BYTES_MAX then return refuse(txn, 431, "Request Header Fields Too Large") end

    local sent, headers = txn.http:req_get_headers(), {}
    for name in string.gmatch(string.lower(names), "[^,]+") do
        if sent[name] then
            local values, bytes = all(sent[name])
            if bytes > HEADER_BYTES_MAX then return refuse(txn, 431, "Request Header Fields Too Large") end
            headers[name] = values
        end
    end
    headers["x-forwarded-for"] = {txn.f:src()}
    headers["x-forwarded-method"] = {method}
    headers["x-forwarded-uri"] = {path}
    headers["x-forwarded-host"] = {host}
    headers["x-forwarded-proto"] = {txn.f:ssl_fc() == 1 and "https" or "http"}

    local answer = core.httpclient():get({url = url, headers = headers})
    local status = answer.status or 0
    if status == 200 then
        for _, name in ipairs(TOLD) do
            local values = answer.headers[name]
            if values then txn:set_var("txn." .. name:gsub("-", "_"), values[0]) end
        end
    elseif status == 429 then
        local reply = txn:reply({status = 429, reason = "Too Many Requests", body = answer.body})
        for _, name in ipairs({"content-type", "retry-after", table.unpack(TOLD)}) do
            local values = answer.headers[name]
            if values then reply:add_header(name, values[0]) end
        end
        txn:done(reply)
    else
        txn:Warning("tollgate has not decided: status " .. status)
        -- A complaint about the URL, or about a token, is no reason to let anything pass. What is above 500 comes from nobody who decides.
        if status >= 400 and status <= 500 then txn:done(txn:reply({status = 500})) end
    end
end, 2)
