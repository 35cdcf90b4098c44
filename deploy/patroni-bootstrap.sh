#!/bin/sh
# Patroni runs it once on the new primary, with its URL. The password comes from the environment: every user of the
# machine can read the arguments of a process.
exec psql --no-psqlrc --set ON_ERROR_STOP=1 --dbname "$1" <<'END'
\getenv password MERCATO_PASSWORD
CREATE ROLE mercato LOGIN PASSWORD :'password' IN ROLE pg_monitor;
CREATE DATABASE mercato OWNER mercato;
END
