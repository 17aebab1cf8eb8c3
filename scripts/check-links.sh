#!/usr/bin/env bash
# Every relative link in the documents points to a file that exists.
set -euo pipefail
cd "$(dirname "$0")/.."

broken=0
while IFS=: read -r document link; do
    target=${link#*](}
    target=${target%%)*}
    target=${target%%#*}
    case "$target" in "" | http://* | https://*) continue ;; esac
    if [ ! -e "$(dirname "$document")/$target" ]; then
        printf '%s: no such file: %s\n' "$document" "$target" >&2
        broken=1
    fi
done < <(git ls-files -co --exclude-standard '*.md' | xargs -r grep -oHE '\]\([^)]+\)')
exit "$broken"
