-- The past by owner and by queue, version 3. What stands in the records is put
-- into the column by the program (schema.go).
ALTER TABLE job ADD COLUMN queue TEXT NOT NULL DEFAULT '';
CREATE INDEX job_finished_owner ON job (owner, finished_unix_ms, id) WHERE is_over = 1;
CREATE INDEX job_finished_queue ON job (queue, finished_unix_ms, id) WHERE is_over = 1;
