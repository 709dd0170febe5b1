#!/bin/sh
# The server's archive_command: one file of its log (%p) into the volume `backups` under its name (%f), whole or not at all.
set -eu
: "${BACKUPS:=/backups}"
mkdir -p "$BACKUPS/wal"
[ -f "$BACKUPS/wal/$2" ] && exec cmp "$1" "$BACKUPS/wal/$2" # sent before, and the server was stopped before it knew
cp "$1" "$BACKUPS/wal/$2.draft"
sync "$BACKUPS/wal/$2.draft"
mv "$BACKUPS/wal/$2.draft" "$BACKUPS/wal/$2"
