-- Run by PostgreSQL's image at the first start: a role and a schema for each network.
-- The passwords come from the environment: every user of the machine can read the arguments of a process.
\getenv at MERCATO_AT_PASSWORD
\getenv de MERCATO_DE_PASSWORD
CREATE ROLE mercato_at LOGIN PASSWORD :'at' IN ROLE pg_monitor;
CREATE ROLE mercato_de LOGIN PASSWORD :'de' IN ROLE pg_monitor;
CREATE SCHEMA at AUTHORIZATION mercato_at;
CREATE SCHEMA de AUTHORIZATION mercato_de;
