-- Logins for a laptop: the owner, who migrates, and one for each service (docs/runbook.md).
--
-- PostgreSQL's image runs this once, in the database duebook, when its volume is new.

CREATE ROLE duebook_api NOLOGIN;
CREATE ROLE duebook_scanner NOLOGIN;
CREATE ROLE duebook_worker NOLOGIN;

CREATE ROLE duebook LOGIN PASSWORD 'laptop';
GRANT duebook_api, duebook_scanner, duebook_worker TO duebook;
ALTER DATABASE duebook OWNER TO duebook;

CREATE ROLE api_1 LOGIN PASSWORD 'laptop';
GRANT duebook_api TO api_1;
-- For the admin's tick and list of all tables.
GRANT duebook_scanner TO api_1 WITH INHERIT FALSE;

CREATE ROLE scanner_1 LOGIN PASSWORD 'laptop';
GRANT duebook_scanner TO scanner_1;

CREATE ROLE worker_1 LOGIN PASSWORD 'laptop';
GRANT duebook_worker TO worker_1;
