-- The number of the schema, version 10: the column version has from now on that of the last
-- breaking one (schema.go).
ALTER TABLE synapse.version ADD COLUMN schema integer;
