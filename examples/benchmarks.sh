#!/bin/sh
# Measures what docs/benchmarks.md reports, and prints it as Markdown: this machine, this version.
#
#   examples/benchmarks.sh [DATA] [FOLDER]
#
# DATA (data) has the validation files named below; parts whose files are missing are left out.
# FOLDER (benchmarks) gets a JSON file and a log for each command, and benchmarks.md. LIMIT=20 asks
# at most 20 questions of a source, for a quick look. PARTS names the parts to run:
# "answers texts speed library long", of which "long" reads 16 million tokens for hours and
# is not run unless named.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root/kernels:$root/engine:$root/sdk:$root${PYTHONPATH:+:$PYTHONPATH}"
data=${1:-data}
folder=${2:-benchmarks}
parts=${PARTS:-answers texts speed library}
limit=${LIMIT:+--limit $LIMIT}
page=$folder/benchmarks.md
mkdir -p "$folder"

present() {  # FILE...: whether all are there; a note if not
    for file in "$@"; do
        [ -e "$file" ] || { echo "left out: there is no $file" >&2; return 1; }
    done
}

drt_json() {  # NAME ARGUMENT...: run drt, keep its JSON, print its table and its seconds
    name=$1
    shift
    echo "drt $* ..." >&2
    began=$(date +%s)
    if python -m drt_cli "$@" --json >"$folder/$name.json" 2>"$folder/$name.log"; then
        printf '\n`drt %s` (%d s)\n\n```\n' "$*" $(($(date +%s) - began))
        python -c 'import json, sys, drt; print(drt.report_table(json.load(sys.stdin)))' \
            <"$folder/$name.json"
        printf '```\n'
    else
        echo "drt $* failed; the end of $folder/$name.log:" >&2
        tail -n 5 "$folder/$name.log" >&2
    fi
}

answers() {
    questions="--qa $data/qa/valid-qa.jsonl.xz --docs $data/qa/valid-docs.jsonl.xz"
    printf '\n## Answers\n'
    # $questions and $limit are several words each.
    # shellcheck disable=SC2086
    if present "$data/qa/valid-qa.jsonl.xz" "$data/qa/valid-docs.jsonl.xz"; then
        drt_json retrieval eval retrieval $questions --source SQuAD $limit
        drt_json qa eval qa $questions --source SQuAD --both $limit
    fi
    # shellcheck disable=SC2086
    drt_json handbook eval qa --qa "$root/examples/handbook-questions.jsonl" \
        --docs "$root/examples/handbook.md" $limit
    # shellcheck disable=SC2086
    present "$data/real/questions.jsonl" "$data/real/files" \
        && drt_json files eval files "$data/real/questions.jsonl" "$data/real/files" $limit
    present "$data/corpus/valid.jsonl.xz" \
        && drt_json needle eval needle --corpus "$data/corpus/valid.jsonl.xz" \
            --lengths 4k,16k,64k,256k --needles "${LIMIT:-20}" --seed 1
}

texts() {
    printf '\n## Summaries and perplexity\n'
    # shellcheck disable=SC2086
    present "$data/summaries/valid.jsonl.xz" \
        && drt_json summary eval summary "$data/summaries/valid.jsonl.xz" $limit
    present "$data/corpus/valid.jsonl.xz" \
        && drt_json ppl eval ppl "$data/corpus/valid.jsonl.xz" --length 16k --limit 66000
}

speed() {
    printf '\n## Speed\n'
    for name in ingest ask retrieve decode kernels train pdf; do
        drt_json "bench-$name" bench "$name"
    done
}

library() {
    printf '\n## A large library\n'
    drt_json bench-library bench library --tokens "${LIBRARY_TOKENS:-16000000}"
}

long() {
    printf '\n## One long document\n'
    present "$data/corpus/books-000.jsonl.xz" || return
    here=$(cd "$folder" && pwd)
    python "$root/examples/needle_document.py" make "$data/corpus/books-000.jsonl.xz" \
        "$here/big.txt" --tokens "${LONG_TOKENS:-17500000}" --needles 20 --seed 4
    for step in "ingest $here/big.txt" "library stats" "library check"; do
        echo "drt $step ..." >&2
        began=$(date +%s)
        # shellcheck disable=SC2086
        said=$(python -m drt_cli --quiet --library "$here/long.library" $step 2>&1)
        printf '\n`drt %s` (%d s)\n\n```\n%s\n```\n' "${step%% /*}" $(($(date +%s) - began)) "$said"
    done
    printf '\n`needle_document.py ask`\n\n```\n'
    python "$root/examples/needle_document.py" ask "$here/long.library" "$here/big.jsonl" | tail -n 3
    printf '```\n'
}

{
    printf '# Benchmarks\n\n%s, version %s' "$(date +%F)" \
        "$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
    printf '\n\n```\n'
    python -m drt_cli --quiet doctor 2>&1
    printf '```\n'
    for part in $parts; do
        case $part in
            answers | texts | speed | library | long) "$part" ;;
            *) echo "there is no part $part" >&2 ;;
        esac
    done
} >"$page"
cat "$page"
