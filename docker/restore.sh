#!/bin/sh
# In a container of PostgreSQL whose volume is empty: the data of a backup as they were at a moment, without one at the
# last moment that was noted. The next start of the server reads the log up to there. docs/operators/backup.md
set -eu
: "${BACKUPS:=/backups}"

if [ -n "$(ls -A "$PGDATA" 2> /dev/null)" ]; then
    echo "There are data already in $PGDATA; restore into an empty volume." >&2
    exit 1
fi
at=${1:-$(cat "$BACKUPS/mark")}
wanted=$(date -d "$at" +%s)
base=
for one in "$BACKUPS"/base/*Z; do
    if [ "$(date -d "$(cat "$one/at")" +%s)" -le "$wanted" ]; then
        base=$one
    fi
done
if [ -z "$base" ] || [ "$(date -d "$(cat "$BACKUPS/mark")" +%s)" -lt "$wanted" ]; then
    echo "$at is not in the backup, which reaches to $(cat "$BACKUPS/mark")." >&2
    exit 1
fi
mkdir -p "$PGDATA"
tar -xzf "$base/base.tar.gz" -C "$PGDATA"
chmod 700 "$PGDATA"
{
    echo "restore_command = 'cp \"$BACKUPS/wal/%f\" \"%p\"'"
    echo "recovery_target_time = '$at'"
    echo "recovery_target_action = 'promote'"
    echo "recovery_target_timeline = 'current'"
} >> "$PGDATA/postgresql.auto.conf"
touch "$PGDATA/recovery.signal"
if [ "$(id -u)" = 0 ]; then
    chown -R "${POSTGRES_ACCOUNT:-postgres}": "$PGDATA"
fi
echo "Restored from $base; the server reads its log up to $at when it starts."
