#!/bin/sh
# Gives the application's role its password, as a value that psql quotes.
set -eu
echo "ALTER ROLE takt_app PASSWORD :'password';" |
    psql -v ON_ERROR_STOP=1 -v password="$APPLICATION_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB"
