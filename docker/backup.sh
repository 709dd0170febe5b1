#!/bin/sh
# In the container of PostgreSQL: a base copy once a day, and the log up to now. Mirror the storage afterwards: what is
# committed before the moment noted here has its files there. docs/operators/backup.md
set -eu
: "${BACKUPS:=/backups}"

ask() {
    psql -X -U "$POSTGRES_USER" -d postgres -Atqc "$1"
}

mkdir -p "$BACKUPS/base" "$BACKUPS/wal"
if [ -z "$(find "$BACKUPS/base" -mindepth 1 -maxdepth 1 -name '*Z' -mtime -1)" ]; then
    name=$(date -u +%Y%m%dT%H%M%SZ)
    rm -rf "$BACKUPS"/base/*.draft
    pg_basebackup -U "$POSTGRES_USER" -D "$BACKUPS/base/$name.draft" -Ft -z -X fetch -c fast
    ask "SELECT clock_timestamp()" > "$BACKUPS/base/$name.draft/at"
    mv "$BACKUPS/base/$name.draft" "$BACKUPS/base/$name"
fi
at=$(ask "SELECT clock_timestamp()")
# A commit after that moment, by which recovery sees that it has come to it; then the log so far goes to the archive.
ask "SELECT pg_logical_emit_message(true, 'takt', 'backup')" > /dev/null
last=$(ask "SELECT pg_walfile_name(pg_current_wal_lsn())")
ask "SELECT pg_switch_wal()" > /dev/null
waited=0
until [ -f "$BACKUPS/wal/$last" ]; do
    waited=$((waited + 1))
    [ "$waited" -le 60 ] || { echo "The server does not archive its log; its own log says why." >&2; exit 1; }
    sleep 1
done
echo "$at" > "$BACKUPS/mark.draft"
mv "$BACKUPS/mark.draft" "$BACKUPS/mark"
echo "Backed up to $BACKUPS: any moment up to $at can be restored. Mirror the storage now."
