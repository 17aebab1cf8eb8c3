-- Asks Tollgate about a request: `http-request lua.tollgate URL HEADERS`. A denial goes to the client as it is; without an answer the
-- request passes. HEADERS are those of the client that are handed over, with commas between them, or `-` for none.
--
-- Not all of them are, and none in full length: what HAProxy asks must fit into one of its buffers, whatever the client sends. Otherwise a
-- client could see to it that the question cannot be asked.

-- How many bytes are handed over of a header, and of the path with its query.
local HEADER_BYTES_MAX = 512
local PATH_BYTES_MAX = 4096

-- What the client is told about its limits, if its request passes.
local TOLD = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-policy", "ratelimit"}

local function up_to(bytes_max, text)
    return {string.sub(text or "", 1, bytes_max)}
end

core.register_action("tollgate", {"http-req"}, function(txn, url, names)
    local sent, headers = txn.http:req_get_headers(), {}
    for name in string.gmatch(string.lower(names), "[^,]+") do
        local values = sent[name] -- HAProxy counts from 0
        if values then headers[name] = up_to(HEADER_BYTES_MAX, values[0]) end
    end
    headers["x-forwarded-for"] = {txn.f:src()}
    headers["x-forwarded-method"] = up_to(HEADER_BYTES_MAX, txn.f:method())
    headers["x-forwarded-uri"] = up_to(PATH_BYTES_MAX, txn.f:pathq())
    headers["x-forwarded-host"] = up_to(HEADER_BYTES_MAX, txn.f:req_hdr("host"))
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
        -- A complaint about the URL is no reason to let anything pass.
        if status >= 400 and status < 500 then txn:done(txn:reply({status = 500})) end
    end
end, 2)
