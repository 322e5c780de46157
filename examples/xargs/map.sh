#!/bin/sh
# Ask every prompt of a file, one a line, several at a time on this machine; one artifact a prompt.
#
#   ./map.sh PROMPTS FOLDER [WORKERS]
#
# ORE is the command to run, with its flags: ORE="ore --model mistral" ./map.sh prompts.txt out 4
# An artifact is there whole or not at all, so what is there is done. Whatever was killed or failed is
# asked again as long as that gets further; and the next time that this is run.
set -u

prompts=${1:?usage: map.sh PROMPTS FOLDER [WORKERS]}
folder=${2:?usage: map.sh PROMPTS FOLDER [WORKERS]}
workers=${3:-2}
ORE=${ORE:-ore}
export ORE
[ -f "$prompts" ] && [ -r "$prompts" ] || {
    echo "map.sh: $prompts is no file that can be read" >&2
    exit 1
}
mkdir -p "$folder" || exit 1

# Write "PATH\0PROMPT\0" for every prompt without an artifact. The name holds the line's number and its
# hash: a line that was changed is another prompt.
missing() {
    number=0
    while IFS= read -r prompt || [ -n "$prompt" ]; do
        number=$((number + 1))
        case $prompt in *[![:space:]]*) ;; *) continue ;; esac
        hash=$(printf %s "$prompt" | sha256sum | cut -c 1-8)
        path=$(printf '%s/%06d-%s.json' "$folder" "$number" "$hash")
        [ -s "$path" ] || printf '%s\0%s\0' "$path" "$prompt"
    done <"$prompts"
}

count() {
    missing | tr -cd '\0' | wc -c | awk '{ print $1 / 2 }'
}

left=$(count)
while [ "$left" -gt 0 ]; do
    missing | xargs -0 -n 2 -P "$workers" \
        sh -c '$ORE --quiet --artifact-out "$0" -- "$1" </dev/null >/dev/null'
    before=$left
    left=$(count)
    if [ "$left" -ge "$before" ]; then
        echo "map.sh: $left prompts have no artifact: see the errors above, then run it again" >&2
        exit 1
    fi
done
