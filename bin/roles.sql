-- The role that web, workers and scheduler use: every right to rows, none to tables. It owns nothing, so it can neither
-- drop nor alter a table, empty it (TRUNCATE), nor switch a guard (trigger) off. Run once in each database as the owner,
-- who migrates; what the owner creates later is opened to the role by itself.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'takt_app') THEN
        CREATE ROLE takt_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
END $$;
GRANT USAGE ON SCHEMA public TO takt_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO takt_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO takt_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO takt_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO takt_app;
